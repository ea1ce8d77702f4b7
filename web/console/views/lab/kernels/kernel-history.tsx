import { useQuery } from '@tanstack/react-query';
import { createTwoFilesPatch } from 'diff';
import { useState } from 'react';
import { api, unwrap } from '../../../../api/client.ts';
import type { components } from '../../../../api/schema.d.ts';
import { Chart } from '../../../../ui/chart.tsx';
import { CopyValue } from '../../../../ui/copy.tsx';
import { formatTime } from '../../../../ui/format.ts';
import { Badge, Button, DiffView, FaultNote, Loading, Table } from '../../../../ui/index.tsx';
import { formatRange, isVerdict, verdictLabels, verdictTones } from '../bench/verdict-text.ts';

type Version = components['schemas']['KernelVersions']['versions'][number];

/**
 * Registrations of a kernel with their benches, decoding speed over time, and what changed between two registrations.
 * @param props.onOpen called with a registration whose source the author wants to edit
 */
export function KernelHistory({
  kernel,
  onOpen,
}: {
  kernel: string;
  onOpen: (registration: Version['registration']) => void;
}) {
  const [shown, setShown] = useState<number>();
  const history = useQuery({
    queryKey: ['lab', 'versions', kernel],
    queryFn: async () =>
      (await unwrap(api.GET('/lab/v1/kernels/{name}/versions', { params: { path: { name: kernel } } })))
        .versions,
  });
  if (history.error) return <FaultNote error={history.error} retry={() => void history.refetch()} />;
  if (!history.data) return <Loading what={`the history of ${kernel}`} />;
  const versions = history.data.map((version, index) => ({ ...version, index }));
  return (
    <>
      <SpeedChart versions={versions} />
      <Table
        caption={`Registrations of ${kernel}, latest first`}
        rows={versions}
        keyOf={({ index }) => String(index)}
        isSelected={({ index }) => index === shown}
        columns={[
          { key: 'at', head: 'Registered', cell: ({ at }) => formatTime(at) },
          {
            key: 'verdict',
            head: 'Gate',
            cell: ({ accepted }) => (
              <Badge tone={accepted ? 'good' : 'bad'}>{accepted ? 'accepted' : 'rejected'}</Badge>
            ),
          },
          { key: 'digest', head: 'Digest', cell: ({ digest }) => <Digest text={digest} /> },
          {
            key: 'benches',
            head: 'Benches: decode, 95 % interval',
            cell: ({ benches }) =>
              benches.length === 0
                ? 'none'
                : benches.map(({ at, kernels, verdict, ratio_low: low, ratio_high: high }) => (
                    <div key={at}>
                      {low === null || high === null ? '-' : formatRange(low, high)}{' '}
                      {isVerdict(verdict) ? (
                        <Badge tone={verdictTones[verdict]}>{verdictLabels[verdict]}</Badge>
                      ) : (
                        verdict
                      )}
                      {kernels.length > 1 &&
                        ` together with ${kernels.filter((one) => one !== kernel).join(', ')}`}
                    </div>
                  )),
          },
          {
            key: 'do',
            head: 'Actions',
            cell: ({ index, at, registration }) => (
              <>
                <Button
                  aria-label={`Open the registration of ${formatTime(at)} in the workbench`}
                  onClick={() => onOpen(registration)}
                >
                  Open
                </Button>{' '}
                {index + 1 < versions.length && (
                  <Button
                    aria-label={`What the registration of ${formatTime(at)} changed`}
                    aria-pressed={index === shown}
                    onClick={() => setShown(index === shown ? undefined : index)}
                  >
                    Changes
                  </Button>
                )}
              </>
            ),
          },
        ]}
      />
      {shown !== undefined && <Changes before={versions[shown + 1]} after={versions[shown]} />}
    </>
  );
}

const Digest = ({ text }: { text: string }) => (
  <CopyValue value={text} label="the digest">
    {text.replace('sha256:', '').slice(0, 12)}
  </CopyValue>
);

/** Decoding speed with this kernel bound, relative to the built-in kernels, by bench. */
function SpeedChart({ versions }: { versions: readonly Version[] }) {
  const benches = versions
    .flatMap(({ benches: all }) => all)
    .flatMap(({ at, ratio_low: low, ratio_high: high }) =>
      low === null || high === null ? [] : [{ at: new Date(at).getTime(), low, high }],
    )
    .toSorted((a, b) => a.at - b.at);
  if (benches.length === 0) return null;
  return (
    <Chart
      label="Decoding speed in the benches of this kernel relative to the built-in kernels, with 95 % intervals. Above 1, it is faster."
      x={benches.map(({ at }) => at)}
      xKind="time"
      series={[
        {
          name: 'With this kernel',
          values: benches.map(({ low, high }) => Math.sqrt(low * high)),
          band: { low: benches.map(({ low }) => low), high: benches.map(({ high }) => high) },
          draw: 'points',
          color: 1,
        },
        { name: 'No difference', values: benches.map(() => 1), color: 5 },
      ]}
      xLabel="Ended"
      yLabel="Time ratio"
      height={220}
    />
  );
}

function Changes({ before, after }: { before: Version | undefined; after: Version | undefined }) {
  if (!before || !after) return null;
  const textOf = ({ registration: { source, ...members } }: Version): string =>
    `${JSON.stringify(members, undefined, 2)}\n\n${source}`;
  const [left, right] = [textOf(before), textOf(after)];
  if (left === right) return <p role="status">The two registrations are equal.</p>;
  const patch = createTwoFilesPatch(before.at, after.at, left, right, undefined, undefined, { context: 3 });
  return <DiffView diff={patch.replace(/^=+\n/, '').trimEnd()} label="Changes" />;
}
