import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { api, unwrap } from '../../../../api/client.ts';
import { bearer } from '../../../../api/token.ts';
import { formatTime } from '../../../../ui/format.ts';
import { protectedQueryOptions, ProtectedRouteFault } from '../../../shell/protected-route.tsx';
import { Badge, Button, Empty, Loading, Panel, Table } from '../../../../ui/index.tsx';
import { useBenchRuns } from '../bench-runs.tsx';
import type { BenchRun } from './runs.ts';
import { formatChange, formatRange, isVerdict, verdictTones, verdictLabels } from './verdict-text.ts';

interface BenchRecord {
  readonly id: string;
  readonly at: string | number;
  readonly kernels: string;
  readonly verdict: string;
  readonly rounds: number;
  readonly low: number;
  readonly high: number;
  readonly run?: BenchRun;
}

/** Bench verdicts of this page and, with the bearer token, all that the host stores. */
export function History({ shownId, onShow }: { shownId: number | undefined; onShow: (id: number) => void }) {
  const { runs } = useBenchRuns();
  const [isLoadRequested, requestLoad] = useState(bearer.token !== undefined);
  const done = runs.filter(({ isMeasureOnly: isMeasure, result }) => result !== undefined && !isMeasure);
  const stored = useQuery({
    // The count is in the key, so that a finished bench reloads the list.
    queryKey: ['observe', 'benches', done.length],
    queryFn: fetchStoredBenches,
    enabled: isLoadRequested,
    ...protectedQueryOptions,
  });
  const ownRecords = done.flatMap((run) => recordsOf(run));
  // The host writes rows in batches, so the newest benches may be missing.
  const unsaved = ownRecords.filter((own) => !stored.data?.some((row) => isSameBench(own, row)));
  const rows = [
    ...unsaved.toReversed(),
    ...(stored.data ?? []).map(
      (row): BenchRecord => ({ ...row, ...ownRecords.find((own) => isSameBench(own, row)), id: row.id }),
    ),
  ];
  return (
    <Panel
      title="Bench history"
      tools={!isLoadRequested && <Button onClick={() => requestLoad(true)}>Show all stored benches</Button>}
    >
      {stored.isFetching && !stored.data && <Loading what="earlier benches" />}
      {stored.isError && (
        <ProtectedRouteFault error={stored.error} retry={() => void stored.refetch()} what="stored benches" />
      )}
      {rows.length === 0 ? (
        <Empty title="No bench yet.">Benches that you run on this page are listed here.</Empty>
      ) : (
        <Table
          caption="Benches, latest first"
          rows={rows}
          keyOf={({ id }) => id}
          filter={{
            what: 'benches',
            textOf: ({ kernels, verdict, at }) => `${kernels} ${verdict} ${formatTime(at)}`,
          }}
          isSelected={({ run }) => run !== undefined && run.id === shownId}
          columns={[
            { key: 'at', head: 'Ended', cell: ({ at }) => formatTime(at) },
            { key: 'kernels', head: 'Bound kernels', cell: ({ kernels }) => kernels || 'none' },
            {
              key: 'verdict',
              head: 'Verdict',
              cell: ({ verdict }) =>
                isVerdict(verdict) ? (
                  <Badge tone={verdictTones[verdict]}>{verdictLabels[verdict]}</Badge>
                ) : (
                  verdict
                ),
            },
            { key: 'range', head: 'Decode, 95 % interval', number: true, cell: formatInterval },
            { key: 'rounds', head: 'Rounds', number: true, cell: ({ rounds }) => rounds },
            {
              key: 'show',
              head: '',
              cell: ({ run }) =>
                run && (
                  <Button disabled={run.id === shownId} onClick={() => onShow(run.id)}>
                    {run.id === shownId ? 'Shown above' : 'Show'}
                  </Button>
                ),
            },
          ]}
        />
      )}
    </Panel>
  );
}

const formatInterval = ({ low, high }: BenchRecord): string =>
  Math.abs(high - low) < 1e-9 ? formatChange(low) : formatRange(low, high);

function recordsOf(run: BenchRun): BenchRecord[] {
  const { result, endedAt = run.startedAt } = run;
  if (!result) return [];
  const [low, high] = result.ratio_ci95;
  const kernels = Object.keys(result.fingerprint.kernels).join(',');
  return [
    {
      id: String(run.id),
      at: endedAt,
      kernels,
      verdict: result.verdict,
      rounds: result.rounds,
      low,
      high,
      run,
    },
  ];
}

/** Whether a stored row is a bench of this page: same interval, and ended within a minute. */
const isSameBench = (own: BenchRecord, row: BenchRecord): boolean =>
  own.low === row.low &&
  own.high === row.high &&
  Math.abs(new Date(own.at).getTime() - new Date(row.at).getTime()) < 60_000;

const columns = ['id', 'at', 'kernels', 'verdict', 'rounds', 'ratio_low', 'ratio_high'] as const;

async function fetchStoredBenches(): Promise<BenchRecord[]> {
  const { rows } = await unwrap(
    api.POST('/observe/v1/query', {
      body: {
        surface: 'bench',
        select: [...columns],
        // A bench of one round only measures components.
        where: [{ column: 'rounds', op: 'gt', value: 1 }],
        order_by: [{ column: 'at', direction: 'desc' }],
        limit: 1000,
      },
    }),
  );
  // Values are in the order of the selected columns.
  return (rows as unknown[][]).map(([id, at, kernels, verdict, rounds, low, high]) => ({
    id: String(id),
    at: String(at),
    kernels: String(kernels),
    verdict: String(verdict),
    rounds: Number(rounds),
    low: Number(low),
    high: Number(high),
  }));
}
