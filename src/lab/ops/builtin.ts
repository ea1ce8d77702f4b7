import type { Variant } from '../../../kernels/assemble.ts';
import { erased, type Kernel } from '../../../kernels/define.ts';
import type { BuiltinStep } from './types.ts';

/** Creates a dispatch of a built-in kernel. Checks the types of its variant and params, then erases them. */
export function erasedStep<V extends Variant, P extends Readonly<Record<string, number>>>(
  kernel: Kernel<V, P>,
  step: Omit<BuiltinStep, 'kernel' | 'variant' | 'params'> & { variant: V; params: P },
): BuiltinStep {
  return { ...step, kernel: erased(kernel) };
}
