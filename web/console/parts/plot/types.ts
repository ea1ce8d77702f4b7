export interface Series {
  readonly name: string;
  /** Where a line has none, it is broken. */
  readonly values: readonly (number | null)[];
  /** Of `--series-N` in tokens.css; by its place where absent. */
  readonly colour?: number;
  readonly draw?: 'line' | 'points' | 'bars';
  /** From `low` to `high` around the values: an area along a line, a whisker at a point or a bar. */
  readonly band?: { readonly low: readonly (number | null)[]; readonly high: readonly (number | null)[] };
}

export interface ChartProps {
  /** What it shows, in a sentence: who does not see it hears it, together with the table below. */
  readonly label: string;
  /** In any order. Times are in ms since 1970. */
  readonly x: readonly number[];
  readonly series: readonly Series[];
  readonly xLabel: string;
  readonly yLabel: string;
  /** On a log axis what is not above 0 is left out. */
  readonly xKind?: 'number' | 'time' | 'log';
  readonly yKind?: 'number' | 'log';
  /** Of x = 0, 1, 2 ...: what stands there is no number but one of these. */
  readonly xNames?: readonly string[];
  /** What each of x is of, where it has a name: for the table. */
  readonly names?: readonly string[];
  /** The y axis begins at 0 even where no value is near it. Bars always stand on it. */
  readonly fromZero?: boolean;
  /** In pixels. */
  readonly height?: number;
  /** Of the point under the cursor, in place of its x and y. */
  readonly describe?: (series: number, index: number) => string;
}
