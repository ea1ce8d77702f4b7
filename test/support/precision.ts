/** How far logits may be from those of the CPU oracle, depending on how products round. */
import { expect } from 'vitest';
import type { Runner } from '../../src/engine/execution/runner.ts';

type Rounding = Pick<Runner, 'plan'>;
interface Tolerance {
  readonly nmse: number;
  readonly maxAbs: number;
}

/**
 * True when products of prompts round activations and weights to f16. Tiles of a GPU do, unless the model is loaded
 * with `exact`. Decoded tokens use other kernels, which do not.
 */
export const roundsToF16 = ({ plan }: Rounding): boolean =>
  plan.dispatches.some(({ choices }) => choices.some(({ kernel }) => kernel.includes('F16=true')));

/**
 * Largest error of logits that spread by about 2, compared with an oracle in doubles that keeps keys and values in f16.
 * `f32` on lavapipe: NMSE 4e-8, at most 0.002; the rest comes from f32 sums, and from keys and values so close to the
 * middle of two f16 values that they round the other way. Compared with a cache of doubles, NMSE is 6e-7.
 * `f16` on an H200 (2026-11-27): NMSE 1.8e-6, at most 0.04; with the kernels for GPUs on lavapipe 6.1e-6. Tiles hold weights and
 * activations in f16.
 */
const oracleTolerances = {
  f32: { nmse: 1e-7, maxAbs: 0.01 },
  f16: { nmse: 1.5e-5, maxAbs: 0.1 },
};

export const oracleTolerance = (runner: Rounding): Tolerance =>
  oracleTolerances[roundsToF16(runner) ? 'f16' : 'f32'];

/**
 * Largest error of a decoded token's logits, compared with those of the same token as part of a prompt. Undefined where
 * they have the same bits: products of a software adapter add in the same order for any number of tokens.
 * `f32`: tiles of a GPU add in another order. `f16`: they round as well; on an H200 (2026-11-27) 7.4e-8 and 0.005.
 */
const decodingTolerances = {
  f32: { nmse: 1e-8, maxAbs: 5e-3 },
  f16: { nmse: 1e-6, maxAbs: 0.05 },
};

export const decodingTolerance = (runner: Pick<Runner, 'plan' | 'gpu'>): Tolerance | undefined =>
  runner.gpu.caps.software ? undefined : decodingTolerances[roundsToF16(runner) ? 'f16' : 'f32'];

/**
 * Runs a check as models are usually loaded, and with `exact` as well where products otherwise round to f16.
 * @param check loads a model with the options, and returns whether its products round to f16
 */
export async function inEachPrecision(
  check: (options: { readonly exact: boolean }) => Promise<boolean>,
): Promise<void> {
  if (await check({ exact: false })) expect(await check({ exact: true }), 'rounds with exact').toBe(false);
}
