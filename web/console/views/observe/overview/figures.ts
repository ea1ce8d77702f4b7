import { fetchRecords } from '../fetch-records.ts';
import { numberIn, type ResultRecord, textIn } from '../records.ts';
import type { Query } from '../types.ts';
import { bucketStarts, valuesAt } from './buckets.ts';
import { bucketMs, type TimeRange } from './time-ranges.ts';

/** p50, p95 and p99, in ms; null where nothing was measured. */
export interface Percentiles {
  readonly p50: number | null;
  readonly p95: number | null;
  readonly p99: number | null;
}

/** Figures of a set of requests. */
export interface Figures {
  readonly requests: number;
  /** Refused or failed. */
  readonly errors: number;
  /** Given up by the client. */
  readonly cancelled: number;
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly firstToken: Percentiles;
  readonly total: Percentiles;
  readonly queue: Percentiles;
}

/** Figures of the requests with the same value in a column. */
export interface GroupFigures extends Figures {
  readonly name: string;
}

export interface OverTime {
  /** Starts of the buckets, in ms since the Unix epoch. */
  readonly starts: readonly number[];
  readonly requests: readonly (number | null)[];
  readonly errors: readonly (number | null)[];
  readonly cancelled: readonly (number | null)[];
  readonly promptTokens: readonly (number | null)[];
  readonly completionTokens: readonly (number | null)[];
  readonly firstToken: Readonly<Record<keyof Percentiles, readonly (number | null)[]>>;
  readonly total: Readonly<Record<keyof Percentiles, readonly (number | null)[]>>;
  readonly queue: Readonly<Record<keyof Percentiles, readonly (number | null)[]>>;
}

export interface OverviewFigures {
  readonly all: Figures;
  readonly overTime: OverTime;
  readonly byModel: readonly GroupFigures[];
  readonly byWire: readonly GroupFigures[];
  readonly byOutcome: readonly GroupFigures[];
  readonly asOf: string;
}

const percentileColumns = { firstToken: 'first_token_ms', total: 'total_ms', queue: 'queued_ms' } as const;
const tokenColumns = [
  'prompt_tokens',
  'prompt_tokens_claimed',
  'completion_tokens',
  'completion_tokens_claimed',
] as const;

type Group = NonNullable<Query['group_by']>;

export const whereIn = ({ since }: TimeRange): NonNullable<Query['where']> =>
  since === undefined ? [] : [{ column: 'started_at', op: 'gte', value: since }];

const percentiles = Object.values(percentileColumns).flatMap((column) =>
  (['p50', 'p95', 'p99'] as const).map((fn) => ({ fn, column, as: `${fn}_${column}` })),
);
const sums = [
  { fn: 'count' as const, as: 'requests' },
  ...tokenColumns.map((column) => ({ fn: 'sum' as const, column, as: column })),
];

/** The groups of a result, of which there may be several pages. */
async function fetchGroups(range: TimeRange, groups: Group, aggregate: NonNullable<Query['aggregate']>) {
  const query: Query = { surface: 'completions', where: whereIn(range), aggregate, limit: 1000 };
  if (groups.length > 0) query.group_by = groups;
  const records: ResultRecord[] = [];
  let page = await fetchRecords(query);
  records.push(...page.records);
  for (let pages = 1; page.next !== undefined && pages < maxPages; pages++) {
    page = await fetchRecords({ ...query, cursor: page.next });
    records.push(...page.records);
  }
  return { records, asOf: page.asOf, coverage: page.coverage };
}
const maxPages = 5;

/**
 * All figures of a time range. Counts are grouped by outcome, because errors are counted; percentiles are not, because
 * those of groups cannot be added.
 */
export async function fetchFigures(range: TimeRange): Promise<OverviewFigures> {
  const time: Group[number] = { column: 'started_at', bucket: range.bucket };
  const counted = (groups: Group) => fetchGroups(range, [...groups, 'outcome'], sums);
  const ranked = (groups: Group) => fetchGroups(range, groups, percentiles);
  const [outcomes, timeCounts, modelCounts, wireCounts, all, times, models, wires, byOutcome] =
    await Promise.all([
      counted([]),
      counted([time]),
      counted(['model']),
      counted(['wire']),
      ranked([]),
      ranked([time]),
      ranked(['model']),
      ranked(['wire']),
      ranked(['outcome']),
    ]);
  const nowMs = Date.parse(outcomes.asOf);
  const fromMs =
    range.durationMs === undefined
      ? Date.parse(outcomes.coverage.from ?? outcomes.asOf)
      : nowMs - range.durationMs;
  const starts = bucketStarts(fromMs, nowMs, bucketMs[range.bucket]);
  const groupsBy = (column: string, counts: readonly ResultRecord[], ranks: readonly ResultRecord[]) =>
    [...Map.groupBy(counts, (record) => textIn(record, column))]
      .map(
        ([name, members]): GroupFigures => ({
          name,
          ...figuresOf(
            members,
            ranks.find((record) => textIn(record, column) === name),
          ),
        }),
      )
      .sort((a, b) => b.requests - a.requests);
  return {
    all: figuresOf(outcomes.records, all.records[0]),
    overTime: overTimeOf(starts, timeCounts.records, times.records),
    byModel: groupsBy('model', modelCounts.records, models.records),
    byWire: groupsBy('wire', wireCounts.records, wires.records),
    byOutcome: groupsBy('outcome', outcomes.records, byOutcome.records),
    asOf: outcomes.asOf,
  };
}

const isError = (record: ResultRecord) => ['refused', 'failed'].includes(textIn(record, 'outcome'));
const isCancelled = (record: ResultRecord) => textIn(record, 'outcome') === 'abandoned';

/** @param counts one record for each outcome @param ranks percentiles of all outcomes */
function figuresOf(counts: readonly ResultRecord[], ranks: ResultRecord | undefined): Figures {
  const sum = (names: readonly string[], of = counts) =>
    of.reduce(
      (total, record) => total + names.reduce((each, name) => each + (numberIn(record, name) ?? 0), 0),
      0,
    );
  const percentilesOf = (column: string): Percentiles => ({
    p50: numberIn(ranks, `p50_${column}`),
    p95: numberIn(ranks, `p95_${column}`),
    p99: numberIn(ranks, `p99_${column}`),
  });
  return {
    requests: sum(['requests']),
    errors: sum(['requests'], counts.filter(isError)),
    cancelled: sum(['requests'], counts.filter(isCancelled)),
    promptTokens: sum(['prompt_tokens', 'prompt_tokens_claimed']),
    completionTokens: sum(['completion_tokens', 'completion_tokens_claimed']),
    firstToken: percentilesOf(percentileColumns.firstToken),
    total: percentilesOf(percentileColumns.total),
    queue: percentilesOf(percentileColumns.queue),
  };
}

function overTimeOf(
  starts: readonly number[],
  counts: readonly ResultRecord[],
  ranks: readonly ResultRecord[],
): OverTime {
  const startOf = (record: ResultRecord) => Date.parse(textIn(record, 'started_at'));
  const ranksByStart = new Map(ranks.map((record) => [startOf(record), record]));
  const figures = [...Map.groupBy(counts, startOf)].map(
    ([start, members]) => [start, figuresOf(members, ranksByStart.get(start))] as const,
  );
  const series = (valueOf: (figures: Figures) => number | null, empty: number | null) =>
    valuesAt(starts, new Map(figures.map(([start, of]) => [start, valueOf(of)])), empty);
  const lines = (which: keyof typeof percentileColumns) => ({
    p50: series((of) => of[which].p50, null),
    p95: series((of) => of[which].p95, null),
    p99: series((of) => of[which].p99, null),
  });
  return {
    starts,
    requests: series(({ requests }) => requests, 0),
    errors: series(({ errors }) => errors, 0),
    cancelled: series(({ cancelled }) => cancelled, 0),
    promptTokens: series(({ promptTokens }) => promptTokens, 0),
    completionTokens: series(({ completionTokens }) => completionTokens, 0),
    firstToken: lines('firstToken'),
    total: lines('total'),
    queue: lines('queue'),
  };
}
