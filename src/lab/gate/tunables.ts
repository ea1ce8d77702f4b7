/** Times the tunable combinations of a kernel on shapes of the resident model. */
import { PassTimer } from '../../engine/gpu/pass-timer.ts';
import type { ParityCase, TunedShape } from '../types.ts';
import type { Grid } from './dispatch.ts';
import { GuardedBuffers } from './guarded-buffers.ts';
import type { Bench, References } from './references.ts';
import type { Phases } from './phases.ts';
import { type Candidate, inputsOf } from './run-case.ts';

export type Overrides = Readonly<Record<string, number>>;

/** A build with its override values. */
export interface Combination {
  readonly overrides: Overrides;
  readonly candidate: Candidate;
  /** Throws `RangeError`. */
  readonly gridFor: (one: ParityCase) => Grid;
}

const rounds = 5;
/** Target duration of a round; the dispatch is repeated to reach it. */
const roundMs = 0.5;
const mostRepeats = 32;
/** A combination slower than the fastest by this factor is not measured again. */
const hopeless = 2;

/** All combinations of tunable values. */
export function combinationsOf(tunables: Readonly<Record<string, readonly number[]>>): Overrides[] {
  return Object.entries(tunables).reduce<Overrides[]>(
    (all, [name, values]) => all.flatMap((one) => values.map((value) => ({ ...one, [name]: value }))),
    [{}],
  );
}

/** Dims and weight format, for example `tokens=1 rows=96 columns=64 q8_0`. */
export const shapeOf = ({ dims, format }: ParityCase): string =>
  [
    ...Object.entries(dims).map(([name, value]) => `${name}=${value}`),
    ...(format === undefined ? [] : [format]),
  ].join(' ');

interface Run {
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
  { gpu }: Bench,
  combinations: readonly Combination[],
  one: ParityCase,
  { references, phases, budgetMs }: { references: References; phases: Phases; budgetMs: number },
): Promise<TunedShape> {
  const timer = new PassTimer(gpu);
  const { outWords } = references.of(one);
  const contract = (combinations[0] as Combination).candidate.contract;
  const outputs = Object.fromEntries(
    Object.entries(outWords).map(([name, count]) => [name, new Uint32Array(count)]),
  );
  const contents = { ...inputsOf(contract, one), ...outputs };
  const buffers = new GuardedBuffers(gpu.device, contract, one, { contents, lead: 1 });
  const builtin = await references.prepare(one);
  try {
    const runs = combinations.map(({ overrides, candidate, gridFor }): Run => {
      const group = buffers.bindGroup(candidate.layout);
      const grid = gridFor(one);
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
    await phases.during('run', () => race(runs, timer, budgetMs));
    const tried = runs.flatMap(({ overrides, best }) => (overrides ? [{ overrides, ms: best }] : []));
    const best = tried.reduce((a, b) => (b.ms < a.ms ? b : a));
    const own = runs.find(({ overrides }) => overrides === undefined)?.best;
    return {
      shape: shapeOf(one),
      best: best.overrides,
      best_ms: best.ms,
      ...(own === undefined ? {} : { builtin_ms: own }),
      tried,
    };
  } finally {
    buffers.destroy();
    builtin?.destroy();
    timer.destroy();
  }
}

async function race(runs: readonly Run[], timer: PassTimer, budgetMs: number): Promise<void> {
  const end = performance.now() + budgetMs;
  const repeatsOf = new Map<Run, number>();
  for (let round = 0; round < rounds && (round === 0 || performance.now() < end); round++) {
    const least = Math.min(...runs.map(({ best }) => best));
    for (const run of runs) {
      if (round > 0 && run.overrides && run.best > hopeless * least) continue;
      let repeats = repeatsOf.get(run);
      if (repeats === undefined) {
        const once = await timer.time((pass) => run.encode(pass));
        const again = Math.min(once, await timer.time((pass) => run.encode(pass)));
        repeats = Math.max(1, Math.min(mostRepeats, Math.ceil(roundMs / Math.max(again, 1e-6))));
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
