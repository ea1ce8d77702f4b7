/** What every oracle takes: values in row-major order. Results are always Float64Array. */
export type Values = Float32Array | Float64Array;

/** Fails on a shape that does not fit its data: always a caller's bug. */
export function expectLength(what: string, values: ArrayLike<unknown>, expected: number): void {
  if (values.length !== expected) {
    throw new RangeError(`${what} holds ${values.length} values, its shape says ${expected}`);
  }
}
