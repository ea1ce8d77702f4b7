import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { api, held } from '../../../api/client.ts';
import { bearer } from '../../../api/token.ts';
import { formatTime } from '../../../parts/format.ts';
import { gated, GatedFault } from '../../../parts/gated.tsx';
import { Badge, Button, Empty, Loading, Panel, Table } from '../../../parts/index.tsx';
import { useBenchRuns } from '../bench-runs.tsx';
import type { BenchRun } from './runs.ts';
import { formatChange, formatRange, isVerdict, verdictTones, verdictWords } from './words.ts';

interface Past {
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
export function History({ shown, show }: { shown: number | undefined; show: (id: number) => void }) {
  const { runs } = useBenchRuns();
  const [isAsked, setAsked] = useState(bearer.token !== undefined);
  const done = runs.filter(({ isMeasure, result }) => result !== undefined && !isMeasure);
  const kept = useQuery({
    // The count is in the key, so that a finished bench reloads the list.
    queryKey: ['observe', 'benches', done.length],
    queryFn: keptBenches,
    enabled: isAsked,
    ...gated,
  });
  const own = done.flatMap((run) => pastOf(run));
  // The host writes rows in batches, so the newest benches may be missing.
  const unwritten = own.filter((mine) => !kept.data?.some((row) => isSame(mine, row)));
  const rows = [
    ...unwritten.toReversed(),
    ...(kept.data ?? []).map(
      (row): Past => ({ ...row, ...own.find((mine) => isSame(mine, row)), id: row.id }),
    ),
  ];
  return (
    <Panel
      title="Bench history"
      tools={!isAsked && <Button onClick={() => setAsked(true)}>Show all stored benches</Button>}
    >
      {kept.isFetching && !kept.data && <Loading what="earlier benches" />}
      {kept.isError && (
        <GatedFault error={kept.error} retry={() => void kept.refetch()} what="stored benches" />
      )}
      {rows.length === 0 ? (
        <Empty title="No bench yet.">Benches that you run on this page are listed here.</Empty>
      ) : (
        <Table
          caption="Benches, latest first"
          rows={rows}
          keyOf={({ id }) => id}
          isSelected={({ run }) => run !== undefined && run.id === shown}
          columns={[
            { key: 'at', head: 'Ended', cell: ({ at }) => formatTime(at) },
            { key: 'kernels', head: 'Bound kernels', cell: ({ kernels }) => kernels || 'none' },
            {
              key: 'verdict',
              head: 'Verdict',
              cell: ({ verdict }) =>
                isVerdict(verdict) ? (
                  <Badge tone={verdictTones[verdict]}>{verdictWords[verdict]}</Badge>
                ) : (
                  verdict
                ),
            },
            { key: 'range', head: 'Decode, 95 % interval', number: true, cell: rangeOf },
            { key: 'rounds', head: 'Rounds', number: true, cell: ({ rounds }) => rounds },
            {
              key: 'show',
              head: '',
              cell: ({ run }) =>
                run && (
                  <Button disabled={run.id === shown} onClick={() => show(run.id)}>
                    {run.id === shown ? 'Shown above' : 'Show'}
                  </Button>
                ),
            },
          ]}
        />
      )}
    </Panel>
  );
}

const rangeOf = ({ low, high }: Past): string =>
  Math.abs(high - low) < 1e-9 ? formatChange(low) : formatRange(low, high);

function pastOf(run: BenchRun): Past[] {
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
const isSame = (mine: Past, row: Past): boolean =>
  mine.low === row.low &&
  mine.high === row.high &&
  Math.abs(new Date(mine.at).getTime() - new Date(row.at).getTime()) < 60_000;

const columns = ['id', 'at', 'kernels', 'verdict', 'rounds', 'ratio_low', 'ratio_high'] as const;

async function keptBenches(): Promise<Past[]> {
  const { rows } = await held(
    api.POST('/observe/v1/query', {
      body: {
        surface: 'bench',
        select: [...columns],
        // A bench of one round only measures components.
        where: [{ column: 'rounds', op: 'gt', value: 1 }],
        order_by: [{ column: 'at', direction: 'desc' }],
        limit: 100,
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
