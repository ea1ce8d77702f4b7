import type { Exactness } from '../../../kernels/contracts.ts';

/**
 * Largest accepted mean KL divergence of the logits in nats, by what the op of a kernel tolerates. Correct kernels have 1e-8 where
 * nothing is rounded, and less than 1e-4 where activations are rounded to 8 bits.
 */
const limits: Readonly<Record<Exactness, number>> = { exact: 5e-5, f32: 5e-5, f16: 1e-4, quantised: 1e-3 };

/** The limit for kernels of these ops together. */
export const maxMeanKl = (ops: readonly { readonly exactness: Exactness }[]): number =>
  Math.max(limits.exact, ...ops.map(({ exactness }) => limits[exactness]));
