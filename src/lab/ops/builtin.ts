import type { Variant } from '../../../kernels/assemble.ts';
import { eraseVariant, type Kernel } from '../../../kernels/define.ts';
import type { BuiltinStep } from './types.ts';

/** Creates a dispatch of a built-in kernel. Checks the types of its variant and params, then erases them. */
export function eraseStep<V extends Variant, P extends Readonly<Record<string, number>>>(
  kernel: Kernel<V, P>,
  step: Omit<BuiltinStep, 'kernel' | 'variant' | 'params'> & { variant: V; params: P },
): BuiltinStep {
  return { ...step, kernel: eraseVariant(kernel) };
}
