/** Input of the oracles: values in row-major order. Results are always Float64Array. */
export type Values = Float32Array | Float64Array;

/** Throws if the length of the data does not match its shape, which is a bug of the caller. */
export function assertLength(label: string, values: ArrayLike<unknown>, expected: number): void {
  if (values.length !== expected) {
    throw new RangeError(`${label}: expected ${expected} values, got ${values.length}`);
  }
}
