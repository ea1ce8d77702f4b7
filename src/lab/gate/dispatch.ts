import { compileExpression } from '../expression.ts';
import type { KernelRegistration } from '../types.ts';

export type Grid = readonly [x: number, y: number, z: number];

/**
 * Evaluates the workgroup counts of one dispatch.
 * @param values dims of the op and overrides of the module
 * @param maxWorkgroups limit for each dimension
 * @throws RangeError that names the invalid dimension
 */
export function gridOf(
  dispatch: KernelRegistration['dispatch'],
  values: Readonly<Record<string, number>>,
  most: number,
): Grid {
  const [x, y, z] = (['x', 'y', 'z'] as const).map((axis) => {
    const text = dispatch[axis] ?? '1';
    const compiled = compileExpression(text);
    const count = compiled.evaluate(values);
    if (Number.isSafeInteger(count) && count >= 1 && count <= most) return count;
    const given = compiled.names.map((name) => `${name} = ${values[name]}`).join(', ');
    throw new RangeError(
      `dispatch.${axis} is '${text}'${given === '' ? '' : ` (${given})`}: expected a whole number from 1 to ${most}, got ${count}`,
    );
  });
  return [x as number, y as number, z as number];
}
