/** Times both arms in rounds. */
import type { BenchRound } from '../types.ts';
import { rounded } from './components.ts';
import type { Effort } from './effort.ts';
import type { BenchPort } from './port.ts';
import { below, type Random } from './random.ts';
import { armOf, type Cell, type Role, Schedule } from './schedule.ts';
import { estimateRatio, type PairedTimes } from './statistics.ts';

/** The warm-up ends when two consecutive rounds differ by less than this, relative. */
const settledWithin = 0.05;
/** Below the resolution of every clock in use. */
const leastMs = 1e-3;
/** Bootstrap resamples of the check whether the intervals are narrow enough: a rough estimate suffices. */
const fewResamples = 300;

/** A prompt that was timed in the bound arm, with its result, to be verified later. */
export interface TimedPrompt {
  readonly tokens: readonly number[];
  readonly token: number;
}

export interface Measured {
  /** Times in ms for each cell. */
  readonly cells: readonly { readonly cell: Cell; readonly times: PairedTimes }[];
  readonly rounds: number;
  /** Tokens of one decode sample. */
  readonly newTokens: number;
  /** Whether times became stable during the warm-up. */
  readonly settled: boolean;
  readonly prompts: readonly TimedPrompt[];
}

type Times = Record<Role, number[]>;

export async function measure(
  port: BenchPort,
  effort: Effort,
  { random, signal, onRound }: { random: Random; signal: AbortSignal; onRound: (round: BenchRound) => void },
): Promise<Measured> {
  const cells: Cell[] = [
    { kind: 'prefill', tokens: effort.promptTokens },
    ...effort.contexts.map((context) => ({ kind: 'decode', context }) as const),
  ];
  const schedule = new Schedule(cells.length, random);
  const prompts: TimedPrompt[] = [];
  let newTokens = effort.newTokens.least;

  const sample = async (cell: Cell, role: Role, tokens: readonly number[]): Promise<number> => {
    signal.throwIfAborted();
    const arm = armOf(role);
    if (cell.kind === 'decode') {
      const { ms } = await port.decode(arm, cell.context, newTokens, tokens[0] ?? 0);
      return Math.max(ms, leastMs);
    }
    const { ms, token } = await port.prefill(arm, tokens);
    if (arm === 'bound') prompts.push({ tokens, token });
    return Math.max(ms, leastMs);
  };
  const round = async (times: readonly Times[]) => {
    // Random tokens for each round, the same for all arms, so that only the kernels differ.
    const inputs = cells.map((cell) => drawTokens(cell.kind === 'prefill' ? cell.tokens : 1, port, random));
    for (const { cell, role } of schedule.round()) {
      times[cell]?.[role].push(await sample(cells[cell] as Cell, role, inputs[cell] ?? []));
    }
  };
  const noTimes = () => cells.map((): Times => ({ baseline: [], bound: [], control: [] }));

  let settled = false;
  let before: readonly number[] | undefined;
  for (let n = 0; n < effort.warmUpRounds && !settled; n++) {
    const times = noTimes();
    await round(times);
    const now = unitTimes(cells, times, newTokens);
    settled =
      before?.every((ms, index) => Math.abs(Math.log((now[index] ?? ms) / ms)) < settledWithin) ?? false;
    before = now;
    newTokens = tokensFor(
      effort,
      Math.min(...times.slice(1).flatMap(({ baseline }) => baseline)) / newTokens,
    );
  }
  prompts.length = 0;

  const times = noTimes();
  const isDone = (rounds: number): boolean => {
    const { least, most } = effort.rounds;
    if (rounds < least) return false;
    if (rounds >= most) return true;
    const spent = times.flatMap((one) => Object.values(one).flat()).reduce((sum, ms) => sum + ms, 0);
    // Stop by the width of the intervals, not by the result: optional stopping would inflate false positives.
    return spent > effort.budgetMs || [times.slice(0, 1), times.slice(1)].every(isPrecise);
  };
  const isPrecise = (series: readonly Times[]): boolean => {
    const { ci95 } = estimateRatio(series, random, fewResamples);
    return Math.log(ci95.high / ci95.low) / 2 < effort.precision;
  };
  let rounds = 0;
  while (!isDone(rounds)) {
    await round(times);
    rounds += 1;
    onRound({ stage: 'round', round: rounds, ...effort.rounds, samples: lastOf(cells, times, newTokens) });
  }
  return {
    cells: cells.map((cell, index) => ({ cell, times: times[index] as Times })),
    rounds,
    newTokens,
    settled,
    prompts,
  };
}

/** Samples of the last finished round. */
const lastOf = (cells: readonly Cell[], times: readonly Times[], newTokens: number): BenchRound['samples'] =>
  cells.map((cell, index) => {
    const last = (role: Role) => rounded(times[index]?.[role].at(-1) ?? 0);
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

export const drawTokens = (count: number, { vocabulary }: BenchPort, random: Random): number[] =>
  Array.from({ length: count }, () => below(random, vocabulary));

/** Time in ms of a prompt and of a decoded token, in each arm. */
function unitTimes(cells: readonly Cell[], times: readonly Times[], newTokens: number): number[] {
  const sum = (kind: Cell['kind'], role: Role) =>
    times.reduce((all, one, index) => all + (cells[index]?.kind === kind ? (one[role][0] ?? 0) : 0), 0);
  return (['baseline', 'bound'] as const).flatMap((role) => [
    sum('prefill', role),
    sum('decode', role) / newTokens,
  ]);
}

const tokensFor = ({ newTokens, sampleMs }: Effort, tokenMs: number): number =>
  Math.min(newTokens.most, Math.max(newTokens.least, Math.ceil(sampleMs / tokenMs)));
