/** Times the tunable combinations of a kernel on shapes of the resident model. */
import { PassTimer } from '../../engine/gpu/pass-timer.ts';
import type { ParityCase, TunedShape } from '../types.ts';
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

const rounds = 5;
/** Target duration of a round; the dispatch is repeated to reach it. */
const roundMs = 0.5;
const maxRepeats = 32;
/** A combination slower than the fastest by this factor is not measured again. */
const maxSlowdown = 2;

/** All combinations of tunable values. */
export function enumerateCombinations(tunables: Readonly<Record<string, readonly number[]>>): Overrides[] {
  return Object.entries(tunables).reduce<Overrides[]>(
    (all, [name, values]) =>
      all.flatMap((parityCase) => values.map((value) => ({ ...parityCase, [name]: value }))),
    [{}],
  );
}

/** Dims and weight format, for example `tokens=1 rows=96 columns=64 q8_0`. */
export const shapeOf = ({ dims, format }: ParityCase): string =>
  [
    ...Object.entries(dims).map(([name, value]) => `${name}=${value}`),
    ...(format === undefined ? [] : [format]),
  ].join(' ');

interface TimedRun {
  readonly overrides: Overrides | undefined;
  encode(pass: GPUComputePassEncoder): void;
  best: number;
}

/**
 * Times the combinations in turns, so that other load on the machine affects them equally. The fastest round of each
 * counts.
 * @param budgetMs no round except the first begins after this time
 */
export async function timeShape(
  { gpu }: GateDevice,
  combinations: readonly Combination[],
  parityCase: ParityCase,
  { references, phases, budgetMs }: { references: ReferenceCache; phases: PhaseReporter; budgetMs: number },
): Promise<TunedShape> {
  const timer = new PassTimer(gpu);
  const { outWords } = references.getReference(parityCase);
  const contract = (combinations[0] as Combination).candidate.contract;
  const outputs = Object.fromEntries(
    Object.entries(outWords).map(([name, count]) => [name, new Uint32Array(count)]),
  );
  const contents = { ...inputWordsByName(contract, parityCase), ...outputs };
  const buffers = new GuardedBuffers(gpu.device, contract, parityCase, { contents, leadingCanaries: 1 });
  const builtin = await references.bindBuiltin(parityCase);
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
    if (builtin) {
      runs.push({ overrides: undefined, best: Number.POSITIVE_INFINITY, encode: builtin.encode });
    }
    // Compile the built-in before timing; the combinations were compiled by the gate.
    await builtin?.run();
    await phases.during('run', () => timeInTurns(runs, timer, budgetMs));
    const tried = runs.flatMap(({ overrides, best }) => (overrides ? [{ overrides, ms: best }] : []));
    const best = tried.reduce((a, b) => (b.ms < a.ms ? b : a));
    const builtinMs = runs.find(({ overrides }) => overrides === undefined)?.best;
    return {
      shape: shapeOf(parityCase),
      best: best.overrides,
      best_ms: best.ms,
      ...(builtinMs === undefined ? {} : { builtin_ms: builtinMs }),
      tried,
    };
  } finally {
    buffers.destroy();
    builtin?.destroy();
    timer.destroy();
  }
}

async function timeInTurns(runs: readonly TimedRun[], timer: PassTimer, budgetMs: number): Promise<void> {
  const end = performance.now() + budgetMs;
  const repeatsOf = new Map<TimedRun, number>();
  for (let round = 0; round < rounds && (round === 0 || performance.now() < end); round++) {
    const fastestMs = Math.min(...runs.map(({ best }) => best));
    for (const run of runs) {
      if (round > 0 && run.overrides && run.best > maxSlowdown * fastestMs) continue;
      let repeats = repeatsOf.get(run);
      if (repeats === undefined) {
        const firstMs = await timer.time((pass) => run.encode(pass));
        const shortestMs = Math.min(firstMs, await timer.time((pass) => run.encode(pass)));
        repeats = Math.max(1, Math.min(maxRepeats, Math.ceil(roundMs / Math.max(shortestMs, 1e-6))));
        repeatsOf.set(run, repeats);
      }
      const count = repeats;
      const ms = await timer.time((pass) => {
        for (let n = 0; n < count; n++) run.encode(pass);
      });
      run.best = Math.min(run.best, ms / count);
    }
  }
}
