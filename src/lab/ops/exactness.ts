import type { Contract, Exactness } from '../../../kernels/contracts.ts';

/** Required exactness of an op with a weight format: kernels must not round activations more than the format does. */
export function exactnessOf({ exactness }: Contract, format?: string): Exactness {
  if (exactness !== 'quantised') return exactness;
  if (format === 'f32') return 'f32';
  return format === 'f16' || format === 'bf16' ? 'f16' : 'quantised';
}
