/** Times both arms in rounds. */
import type { BenchRound } from '../types.ts';
import { roundSignificant } from './components.ts';
import type { BenchEffort } from './effort.ts';
import { randomTokens } from './fill-cache.ts';
import type { BenchPort } from './port.ts';
import type { Random } from '../../util/random.ts';
import { armOf, type Cell, type SampleRole, Schedule } from './schedule.ts';
import { estimateRatio, type PairedTimes } from './statistics.ts';

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
  readonly ms: number;
  readonly sampled: readonly number[];
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

  const sample = async (cell: Cell, role: SampleRole, tokens: readonly number[]): Promise<Sample> => {
    const arm = armOf(role);
    if (cell.kind === 'decode') {
      const { ms, tokens: sampled } = await port.decode(arm, cell.context, tokens);
      return { ms: Math.max(ms, minMs), sampled };
    }
    const { ms, token } = await port.prefill(arm, tokens);
    return { ms: Math.max(ms, minMs), sampled: [token] };
  };
  /** @returns for each cell, how many tokens of the bound arm are those of the baseline */
  const round = async (times: readonly Times[]): Promise<Agreement[]> => {
    // Random tokens for each round, the same for all arms, so that only the kernels differ. Decoded tokens are given, not sampled:
    // after a difference, the arms still compute the same.
    const inputs = cells.map((cell) =>
      randomTokens(cell.kind === 'prefill' ? cell.tokens : newTokens, port, random),
    );
    const answers = cells.map((): Partial<Record<SampleRole, readonly number[]>> => ({}));
    for (const [cell, samples] of Map.groupBy(schedule.round(), (one) => one.cell)) {
      // Between the samples of a cell nothing else runs, so that they find the same cache.
      await port.pause();
      for (const { role } of samples) {
        signal.throwIfAborted();
        const { ms, sampled } = await sample(cells[cell] as Cell, role, inputs[cell] ?? []);
        times[cell]?.[role].push(ms);
        (answers[cell] ?? {})[role] = sampled;
      }
    }
    return answers.map(({ baseline = [], bound = [] }, cell) =>
      port.hasRecurrentState && cells[cell]?.kind === 'decode'
        ? { same: 0, total: 0 }
        : { same: baseline.filter((token, n) => token === bound[n]).length, total: baseline.length },
    );
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
    newTokens = decodeTokensFor(
      effort,
      Math.min(...times.slice(1).flatMap(({ baseline }) => baseline)) / newTokens,
    );
    const [prefill] = cells;
    if (prefill?.kind === 'prefill') {
      const tokens = promptTokensFor(effort, prefill.tokens, Math.min(...(times[0]?.baseline ?? [])));
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
    return spentMs > effort.budgetMs || [times.slice(0, 1), times.slice(1)].every(isPrecise);
  };
  const isPrecise = (series: readonly Times[]): boolean => {
    const { ci95 } = estimateRatio(series, random, roughResamples);
    return Math.log(ci95.high / ci95.low) / 2 < effort.precision;
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

/** Longest sample of default sizes: requests wait for those of the three roles at most. */
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
