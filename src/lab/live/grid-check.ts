/** Checks the dispatch rule of a kernel for every step size of the resident model. */
import type { LabDispatch, LabKernel } from '../../engine/index.ts';

/**
 * Why the workgroup counts of a kernel are invalid for a dispatch; undefined when they are valid. The gate checks only
 * some sizes. A dispatch that Dawn rejects fails the whole step, and one without workgroups skips its rows.
 * @param maxWorkgroups limit for each dimension
 * @param stepTokens rows of the largest step
 */
export function findInvalidGrid(
  kernel: LabKernel,
  { dims }: Pick<LabDispatch, 'dims'>,
  { maxWorkgroups, stepTokens }: { maxWorkgroups: number; stepTokens: number },
): string | undefined {
  for (let tokens = 1; tokens <= (kernel.contract.tokens === 'one' ? 1 : stepTokens); tokens++) {
    for (const [axis, count] of kernel.grid({ ...dims, tokens }).entries()) {
      if (Number.isSafeInteger(count) && count >= 1 && count <= maxWorkgroups) continue;
      return `dispatch.${'xyz'[axis]} for ${tokens} tokens: expected a whole number from 1 to ${maxWorkgroups}, got ${count}`;
    }
  }
  return undefined;
}
