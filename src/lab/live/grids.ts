/** Whether a kernel's dispatch rule holds for every step that the resident model may form. */
import type { LabDispatch, LabKernel } from '../../engine/index.ts';

/**
 * What is wrong with the workgroups of a kernel on a dispatch; undefined when nothing is. The gate saw a few sizes: a
 * dispatch that Dawn refuses would take the whole step with it, and one of no workgroups would leave its rows undone.
 * @param most workgroups in a dimension
 * @param stepTokens rows of the largest step
 */
export function gridFault(
  kernel: LabKernel,
  { dims }: Pick<LabDispatch, 'dims'>,
  { most, stepTokens }: { most: number; stepTokens: number },
): string | undefined {
  for (let tokens = 1; tokens <= (kernel.contract.tokens === 'one' ? 1 : stepTokens); tokens++) {
    for (const [axis, count] of kernel.grid({ ...dims, tokens }).entries()) {
      if (Number.isSafeInteger(count) && count >= 1 && count <= most) continue;
      return `its dispatch.${'xyz'[axis]} is ${count} for ${tokens} tokens there, expected a whole number from 1 to ${most}`;
    }
  }
  return undefined;
}
