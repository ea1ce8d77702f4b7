/** Rows of numbers, one for each position or text, and the distance of two lists of them. */
export type Rows = readonly Float32Array[];

const differences = (a: Rows, b: Rows): Float32Array[] => {
  if (a.length !== b.length) throw new Error(`${a.length} rows and ${b.length} rows cannot be compared`);
  return a.map((row, n) => row.map((value, i) => Math.abs(value - (b[n]?.[i] ?? Number.NaN))));
};

export const maxDifference = (a: Rows, b: Rows): number =>
  Math.max(...differences(a, b).map((row) => Math.max(...row)));

export function meanDifference(a: Rows, b: Rows): number {
  const rows = differences(a, b);
  const sum = rows.reduce((all, row) => row.reduce((part, value) => part + value, all), 0);
  return sum / rows.reduce((all, row) => all + row.length, 0);
}

export const argmax = (row: Float32Array): number => row.indexOf(Math.max(...row));

/** Cosines of vectors of unit length, pair by pair. */
export const cosines = (a: Rows, b: Rows): number[] =>
  a.map((row, n) => row.reduce((sum, value, i) => sum + value * (b[n]?.[i] ?? Number.NaN), 0));
