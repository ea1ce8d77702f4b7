/** Times the tunable combinations of a kernel on shapes of the resident model. */
import { PassTimer } from '../../engine/gpu/pass-timer.ts';
import { seededRandom } from '../../util/random.ts';
import { armOf, Schedule } from '../bench/schedule.ts';
import { estimateRatio } from '../bench/statistics.ts';
import { decideVerdict } from '../bench/verdict.ts';
import type { Comparison, KernelRegistration, ParityCase, TunedShape } from '../types.ts';
import { overrideValues, type Reflection } from '../wgsl/reflect.ts';
import type { Grid } from './dispatch.ts';
import { GuardedBuffers } from './guarded-buffers.ts';
import type { GateDevice, ReferenceCache } from './references.ts';
import type { PhaseReporter } from './phases.ts';
import { type Candidate, inputWordsByName } from './run-case.ts';

export type Overrides = Readonly<Record<string, number>>;

/** A build with its override values. */
export interface Combination {
  readonly overrides: Overrides;
  readonly candidate: Candidate;
  /** Throws `RangeError`. */
  readonly gridFor: (parityCase: ParityCase) => Grid;
}

const sweepRounds = 5;
/** Target duration of a round; the dispatch is repeated to reach it. */
const roundMs = 0.5;
const maxRepeats = 32;
/** A combination slower than the fastest by this factor is not measured again. */
const maxSlowdown = 2;
/** Rounds that compare the fastest combination with the default, and the time after which no more than the fewest begin. */
const comparedRounds = { least: 8, most: 24 };
const comparisonMs = 500;
/** A smaller difference between two combinations does not matter. */
const comparedEffect = 0.03;

/** All combinations of tunable values. */
export function enumerateCombinations(tunables: Readonly<Record<string, readonly number[]>>): Overrides[] {
  return Object.entries(tunables).reduce<Overrides[]>(
    (all, [name, values]) =>
      all.flatMap((parityCase) => values.map((value) => ({ ...parityCase, [name]: value }))),
    [{}],
  );
}

/** The combination that the kernel declares: values of its overrides where they are tried, else the first that is tried. */
export function defaultCombination(
  { tunables = {}, overrides }: Pick<KernelRegistration, 'tunables' | 'overrides'>,
  reflection: Reflection,
): Overrides {
  const declared = overrideValues(reflection, { ...overrides });
  return Object.fromEntries(
    Object.entries(tunables).flatMap(([name, values]) => {
      const value = values.find((one) => one === declared[name]) ?? values[0];
      return value === undefined ? [] : [[name, value]];
    }),
  );
}

/** For example `WG=64 ROWS=4`. */
export const formatOverrides = (overrides: Overrides): string =>
  Object.entries(overrides)
    .map(([name, value]) => `${name}=${value}`)
    .join(' ');

/** Dims and weight format, for example `tokens=1 rows=96 columns=64 q8_0`. */
export const shapeOf = ({ dims, format }: ParityCase): string =>
  [
    ...Object.entries(dims).map(([name, value]) => `${name}=${value}`),
    ...(format === undefined ? [] : [format]),
  ].join(' ');

type Encode = (pass: GPUComputePassEncoder) => void;

/** What is timed: one dispatch. `overrides` is undefined for the built-in kernel. */
interface TimedRun {
  readonly overrides: Overrides | undefined;
  readonly encode: Encode;
  best: number;
}

/** Times a pass, in ms. */
export interface Clock {
  time(encode: Encode): Promise<number>;
}

/** Combinations of a kernel on one shape, with buffers, ready to be timed. */
export class ShapeTimer {
  readonly #shape: string;
  readonly #runs: readonly TimedRun[];
  readonly #clock: Clock;
  readonly #phases: PhaseReporter;
  readonly #release: () => void;

  private constructor(
    shape: string,
    runs: readonly TimedRun[],
    { clock, phases, release }: { clock: Clock; phases: PhaseReporter; release: () => void },
  ) {
    this.#shape = shape;
    this.#runs = runs;
    this.#clock = clock;
    this.#phases = phases;
    this.#release = release;
  }

  static async open(
    { gpu }: GateDevice,
    combinations: readonly Combination[],
    parityCase: ParityCase,
    { references, phases }: { references: ReferenceCache; phases: PhaseReporter },
  ): Promise<ShapeTimer> {
    const clock = new PassTimer(gpu);
    const { outWords } = references.getReference(parityCase);
    const contract = (combinations[0] as Combination).candidate.contract;
    const outputs = Object.fromEntries(
      Object.entries(outWords).map(([name, count]) => [name, new Uint32Array(count)]),
    );
    const contents = { ...inputWordsByName(contract, parityCase), ...outputs };
    const buffers = new GuardedBuffers(gpu.device, contract, parityCase, { contents, leadingCanaries: 1 });
    const builtin = await references.bindBuiltin(parityCase);
    const release = () => {
      buffers.destroy();
      builtin?.destroy();
      clock.destroy();
    };
    try {
      const runs = combinations.map(({ overrides, candidate, gridFor }): TimedRun => {
        const group = buffers.bindGroup(candidate.layout);
        const grid = gridFor(parityCase);
        return {
          overrides,
          best: Number.POSITIVE_INFINITY,
          encode(pass) {
            pass.setPipeline(candidate.pipeline);
            pass.setBindGroup(0, group);
            pass.dispatchWorkgroups(...grid);
          },
        };
      });
      if (builtin)
        runs.push({ overrides: undefined, best: Number.POSITIVE_INFINITY, encode: builtin.encode });
      // Compile the built-in before timing; the combinations were compiled by the gate.
      await builtin?.run();
      return new ShapeTimer(shapeOf(parityCase), runs, { clock, phases, release });
    } catch (error) {
      release();
      throw error;
    }
  }

  /**
   * Times the combinations in turns, so that other load on the machine affects them equally. The fastest round of each counts.
   * @param budgetMs no round except the first begins after this time
   */
  async timeAll(budgetMs: number): Promise<Pick<TunedShape, 'shape' | 'tried' | 'builtin_ms'>> {
    await this.#phases.during('run', () => timeInTurns(this.#runs, this.#clock, budgetMs));
    const builtinMs = this.#runs.find(({ overrides }) => overrides === undefined)?.best;
    return {
      shape: this.#shape,
      ...(builtinMs === undefined ? {} : { builtin_ms: builtinMs }),
      tried: this.#runs.flatMap(({ overrides, best }) => (overrides ? [{ overrides, ms: best }] : [])),
    };
  }

  /** Compares two combinations in rounds of their own. */
  async compare(baseline: Combination, other: Combination, seed: number): Promise<Comparison> {
    const encodeOf = ({ overrides }: Combination): Encode => {
      const run = this.#runs.find((one) => one.overrides === overrides);
      if (!run) throw new Error('a combination that is not timed');
      return run.encode;
    };
    const arms = { baseline: encodeOf(baseline), bound: encodeOf(other) };
    return await this.#phases.during('run', () => compareRuns(arms, this.#clock, seed));
  }

  destroy(): void {
    this.#release();
  }
}

/**
 * Times two dispatches in alternation, as the bench does: the first one twice in each round, which shows the noise. The one that was
 * fastest of many is so by luck as well, so the rounds that chose it are not used.
 */
export async function compareRuns(
  arms: Readonly<Record<'baseline' | 'bound', Encode>>,
  clock: Clock,
  seed: number,
): Promise<Comparison> {
  const random = seededRandom(seed);
  const schedule = new Schedule(1, random);
  const times = { baseline: [] as number[], bound: [] as number[], control: [] as number[] };
  const repeats = Math.max(await repeatsOf(arms.baseline, clock), await repeatsOf(arms.bound, clock));
  const end = performance.now() + comparisonMs;
  let rounds = 0;
  while (rounds < comparedRounds.least || (rounds < comparedRounds.most && performance.now() < end)) {
    for (const { role } of schedule.round())
      times[role].push(await timeRepeats(arms[armOf(role)], clock, repeats));
    rounds += 1;
  }
  const { control, ...estimate } = estimateRatio([times], random);
  const options = { rounds, isDoubtful: false, effect: comparedEffect };
  return { ...estimate, control, verdict: decideVerdict({ ...estimate, control }, options) };
}

/** Below the resolution of every clock in use. */
const minMs = 1e-6;

async function repeatsOf(encode: Encode, clock: Clock): Promise<number> {
  const firstMs = await clock.time(encode);
  const shortestMs = Math.min(firstMs, await clock.time(encode));
  return Math.max(1, Math.min(maxRepeats, Math.ceil(roundMs / Math.max(shortestMs, minMs))));
}

async function timeRepeats(encode: Encode, clock: Clock, repeats: number): Promise<number> {
  const ms = await clock.time((pass) => {
    for (let n = 0; n < repeats; n++) encode(pass);
  });
  return Math.max(ms / repeats, minMs);
}

async function timeInTurns(runs: readonly TimedRun[], clock: Clock, budgetMs: number): Promise<void> {
  const end = performance.now() + budgetMs;
  const repeatsByRun = new Map<TimedRun, number>();
  for (let round = 0; round < sweepRounds && (round === 0 || performance.now() < end); round++) {
    const fastestMs = Math.min(...runs.map(({ best }) => best));
    for (const run of runs) {
      if (round > 0 && run.overrides && run.best > maxSlowdown * fastestMs) continue;
      const repeats = repeatsByRun.get(run) ?? (await repeatsOf(run.encode, clock));
      repeatsByRun.set(run, repeats);
      run.best = Math.min(run.best, await timeRepeats(run.encode, clock, repeats));
    }
  }
}
