import { compileExpression } from '../expression.ts';
import type { KernelRegistration } from '../types.ts';

export type Grid = readonly [x: number, y: number, z: number];

/**
 * Evaluates the workgroup counts of one dispatch.
 * @param values dims of the op and overrides of the module
 * @param maxWorkgroups limit for each dimension
 * @throws RangeError that names the invalid dimension
 */
export function evaluateGrid(
  dispatch: KernelRegistration['dispatch'],
  values: Readonly<Record<string, number>>,
  maxWorkgroups: number,
): Grid {
  const [x, y, z] = (['x', 'y', 'z'] as const).map((axis) => {
    const text = dispatch[axis] ?? '1';
    const compiled = compileExpression(text);
    const count = compiled.evaluate(values);
    if (Number.isSafeInteger(count) && count >= 1 && count <= maxWorkgroups) return count;
    const operandTexts = compiled.names.map((name) => `${name} = ${values[name]}`).join(', ');
    throw new RangeError(
      `dispatch.${axis} is '${text}'${operandTexts === '' ? '' : ` (${operandTexts})`}: expected a whole number from 1 to ${maxWorkgroups}, got ${count}`,
    );
  });
  return [x as number, y as number, z as number];
}
