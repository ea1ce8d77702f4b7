/** Times both arms in rounds. */
import type { BenchRound } from '../types.ts';
import { roundSignificant } from './components.ts';
import type { BenchEffort } from './effort.ts';
import { randomTokens } from './fill-cache.ts';
import type { BenchPort } from './port.ts';
import type { Random } from '../../util/random.ts';
import { armOf, type Cell, type SampleRole, Schedule } from './schedule.ts';
import { estimateRatio, type PairedTimes } from './statistics.ts';
import { decisiveHalfWidth } from './verdict.ts';

/** The warm-up ends when two consecutive rounds differ by less than this, relative. */
const maxSettledChange = 0.05;
/** Below the resolution of every clock in use. */
const minMs = 1e-3;
/** Bootstrap resamples of the check whether the intervals are narrow enough: a rough estimate suffices. */
const roughResamples = 300;

/** How many greedy tokens are the same. */
export interface Agreement {
  readonly same: number;
  readonly total: number;
}

export interface MeasuredCell {
  readonly cell: Cell;
  /** In ms. */
  readonly times: PairedTimes;
  /** How many tokens of all timed samples are the same in both arms. A recurrent state makes them incomparable: 0 of 0. */
  readonly agreement: Agreement;
}

export interface Measurement {
  readonly cells: readonly MeasuredCell[];
  readonly rounds: number;
  /** Tokens of one decode sample. */
  readonly newTokens: number;
  /** Whether times became stable during the warm-up. */
  readonly isSettled: boolean;
}

interface Sample {
  ms: number;
  readonly sampled: number[];
}

/** Part of a sample. */
interface Part {
  readonly first: number;
  readonly count: number;
}

type Times = Record<SampleRole, number[]>;

export async function measureRounds(
  port: BenchPort,
  effort: BenchEffort,
  { random, signal, onRound }: { random: Random; signal: AbortSignal; onRound: (round: BenchRound) => void },
): Promise<Measurement> {
  const cells: Cell[] = [
    { kind: 'prefill', tokens: effort.promptTokens },
    ...effort.contexts.map((context) => ({ kind: 'decode', context }) as const),
  ];
  const schedule = new Schedule(cells.length, random);
  let newTokens = effort.newTokens.least;
  // Short until it is known how long they take.
  const partTokens = { prefill: port.stepTokens, decode: 4 };

  const sample = async (
    cell: Cell,
    role: SampleRole,
    { tokens, part: { first, count } }: { tokens: readonly number[]; part: Part },
  ): Promise<Sample> => {
    const arm = armOf(role);
    const { ms, tokens: sampled } =
      cell.kind === 'decode'
        ? await port.decode(arm, cell.context + first, tokens.slice(first, first + count))
        : await port.prefill(arm, tokens, { first, count });
    return { ms: Math.max(ms, minMs), sampled: [...sampled] };
  };
  /** @returns for each cell, how many tokens of the bound arm are those of the baseline */
  const round = async (times: readonly Times[]): Promise<Agreement[]> => {
    // Random tokens for each round, the same for all arms, so that only the kernels differ. Decoded tokens are given, not sampled:
    // after a difference, the arms still compute the same.
    const inputs = cells.map((cell) =>
      randomTokens(cell.kind === 'prefill' ? cell.tokens : newTokens, port, random),
    );
    const agreements = cells.map((): Agreement => ({ same: 0, total: 0 }));
    for (const [index, samples] of Map.groupBy(schedule.round(), (one) => one.cell)) {
      const cell = cells[index] as Cell;
      const tokens = inputs[index] ?? [];
      const sums = new Map(samples.map(({ role }): [SampleRole, Sample] => [role, { ms: 0, sampled: [] }]));
      for (const part of partsOf(tokens.length, partTokens[cell.kind])) {
        // Within a part nothing else runs, so that the three roles find the same cache.
        await port.pause();
        for (const [role, sum] of sums) {
          signal.throwIfAborted();
          const { ms, sampled } = await sample(cell, role, { tokens, part });
          sum.ms += ms;
          sum.sampled.push(...sampled);
        }
      }
      for (const [role, { ms }] of sums) times[index]?.[role].push(ms);
      if (port.hasRecurrentState && cell.kind === 'decode') continue;
      const [baseline = [], bound = []] = [sums.get('baseline')?.sampled, sums.get('bound')?.sampled];
      agreements[index] = {
        same: baseline.filter((token, n) => token === bound[n]).length,
        total: baseline.length,
      };
    }
    return agreements;
  };
  const emptyTimes = () => cells.map((): Times => ({ baseline: [], bound: [], control: [] }));

  let isSettled = false;
  let previousTimes: readonly number[] | undefined;
  for (let n = 0; n < effort.warmUpRounds && !isSettled; n++) {
    const times = emptyTimes();
    await round(times);
    const currentTimes = unitTimes(cells, times, newTokens);
    isSettled =
      previousTimes?.every(
        (ms, index) => Math.abs(Math.log((currentTimes[index] ?? ms) / ms)) < maxSettledChange,
      ) ?? false;
    previousTimes = currentTimes;
    const tokenMs = Math.min(...times.slice(1).flatMap(({ baseline }) => baseline)) / newTokens;
    newTokens = decodeTokensFor(effort, tokenMs);
    partTokens.decode = Math.max(1, Math.floor(maxSampleMs / tokenMs));
    const [prefill] = cells;
    if (prefill?.kind === 'prefill') {
      const ms = Math.min(...(times[0]?.baseline ?? []));
      const stepMs = (ms * Math.min(port.stepTokens, prefill.tokens)) / prefill.tokens;
      partTokens.prefill = port.stepTokens * Math.max(1, Math.floor(maxSampleMs / stepMs));
      const tokens = promptTokensFor(effort, prefill.tokens, ms);
      if (tokens < prefill.tokens) {
        cells[0] = { kind: 'prefill', tokens };
        // Times of another length.
        previousTimes = undefined;
      }
    }
  }

  const agreements = cells.map((): Agreement => ({ same: 0, total: 0 }));
  const times = emptyTimes();
  const isDone = (rounds: number): boolean => {
    const { least, most } = effort.rounds;
    if (rounds < least) return false;
    if (rounds >= most) return true;
    const spentMs = times.flatMap((one) => Object.values(one).flat()).reduce((sum, ms) => sum + ms, 0);
    // Stop by the width of the intervals, not by the result: optional stopping would inflate false positives.
    if (spentMs > effort.maxBudgetMs) return true;
    if (effort.areRoundsFixed) return false;
    const widest = Math.max(...[times.slice(0, 1), times.slice(1)].map(halfWidth));
    return (
      widest < effort.precision || (spentMs > effort.budgetMs && widest < decisiveHalfWidth(effort.effect))
    );
  };
  const halfWidth = (series: readonly Times[]): number => {
    const { ci95 } = estimateRatio(series, random, roughResamples);
    return Math.log(ci95.high / ci95.low) / 2;
  };
  let rounds = 0;
  while (!isDone(rounds)) {
    for (const [cell, { same, total }] of (await round(times)).entries()) {
      const sum = agreements[cell] as Agreement;
      agreements[cell] = { same: sum.same + same, total: sum.total + total };
    }
    rounds += 1;
    onRound({
      stage: 'round',
      round: rounds,
      ...effort.rounds,
      samples: lastRoundSamples(cells, times, newTokens),
    });
  }
  return {
    cells: cells.map((cell, index) => ({
      cell,
      times: times[index] as Times,
      agreement: agreements[index] as Agreement,
    })),
    rounds,
    newTokens,
    isSettled,
  };
}

const partsOf = (tokens: number, partTokens: number): Part[] =>
  Array.from({ length: Math.ceil(tokens / partTokens) }, (_, n) => ({
    first: n * partTokens,
    count: Math.min(partTokens, tokens - n * partTokens),
  }));

/** Samples of the last finished round. */
const lastRoundSamples = (
  cells: readonly Cell[],
  times: readonly Times[],
  newTokens: number,
): BenchRound['samples'] =>
  cells.map((cell, index) => {
    const last = (role: SampleRole) => roundSignificant(times[index]?.[role].at(-1) ?? 0);
    return {
      kind: cell.kind,
      ...(cell.kind === 'prefill'
        ? { context: cell.tokens, tokens: cell.tokens }
        : { context: cell.context, tokens: newTokens }),
      baseline_ms: last('baseline'),
      bound_ms: last('bound'),
      control_ms: last('control'),
    };
  });

/** Time in ms of a prompt and of a decoded token, in each arm. */
function unitTimes(cells: readonly Cell[], times: readonly Times[], newTokens: number): number[] {
  const sum = (kind: Cell['kind'], role: SampleRole) =>
    times.reduce((all, one, index) => all + (cells[index]?.kind === kind ? (one[role][0] ?? 0) : 0), 0);
  return (['baseline', 'bound'] as const).flatMap((role) => [
    sum('prefill', role),
    sum('decode', role) / newTokens,
  ]);
}

/**
 * Longest part of a sample, and longest sample of default sizes, unless a single step takes longer: requests wait for those of
 * the three roles at most.
 */
const maxSampleMs = 300;

const decodeTokensFor = ({ newTokens, sampleMs, isFixed }: BenchEffort, tokenMs: number): number => {
  const wanted = Math.min(newTokens.most, Math.max(newTokens.least, Math.ceil(sampleMs / tokenMs)));
  return isFixed.newTokens ? wanted : Math.max(1, Math.min(wanted, Math.floor(maxSampleMs / tokenMs)));
};

/** A prompt that takes at most `maxSampleMs`, if that is possible. */
const promptTokensFor = ({ isFixed }: BenchEffort, tokens: number, ms: number): number =>
  isFixed.promptTokens || ms <= maxSampleMs
    ? tokens
    : Math.max(minPromptTokens, Math.floor((tokens * maxSampleMs) / ms));
/** Shorter prompts say nothing about long ones. */
const minPromptTokens = 16;
