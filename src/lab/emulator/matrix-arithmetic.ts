/** Operators on matrices. */
import { EmulationError } from './emulation-error.ts';
import { type ElementName, vector } from './value-types.ts';
import { binaryValue, type Helpers, type Value, valueOf } from './values.ts';

/** `a operator b`, where one is a matrix and both have the same element type. */
export function matrixBinary(
  helpers: Helpers,
  operator: string,
  [a, b]: readonly [Value, Value],
  element: ElementName,
): Value {
  const [left, right] = [a.type, b.type];
  const round = element === 'f16' ? 'hr' : 'fr';
  if (operator === '*' && left.kind === 'matrix' && right.kind === 'vector')
    return valueOf(vector(left.rows, element), `R.matrixByVector(${round}, ${a.code}, ${b.code})`);
  if (operator === '*' && left.kind === 'vector' && right.kind === 'matrix')
    return valueOf(vector(right.columns, element), `R.vectorByMatrix(${round}, ${a.code}, ${b.code})`);
  if (operator === '*' && left.kind === 'matrix' && right.kind === 'matrix')
    return valueOf(
      { ...left, columns: right.columns },
      `${b.code}.map((c) => R.matrixByVector(${round}, ${a.code}, c))`,
    );
  if (left.kind === 'matrix' && right.kind === 'matrix') {
    const column = binaryValue(
      helpers,
      operator,
      [valueOf(vector(left.rows, element), 'c'), valueOf(vector(left.rows, element), `${b.code}[i]`)],
      element,
      element,
    );
    return valueOf(left, `${a.code}.map((c, i) => ${column.code})`);
  }
  const [matrix, factor] = left.kind === 'matrix' ? [a, b] : [b, a];
  if (matrix.type.kind !== 'matrix') throw new EmulationError(`${operator} of a matrix`);
  const column = binaryValue(
    helpers,
    operator,
    [valueOf(vector(matrix.type.rows, element), 'c'), factor],
    element,
    element,
  );
  return valueOf(matrix.type, `${matrix.code}.map((c) => ${column.code})`);
}
