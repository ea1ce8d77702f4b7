export interface Series {
  readonly name: string;
  /** null interrupts the line. */
  readonly values: readonly (number | null)[];
  /** N of `--series-N` in tokens.css. Default: by position. */
  readonly color?: number;
  readonly draw?: 'line' | 'points' | 'bars';
  /** Range around the values: an area along a line, a whisker at a point or bar. */
  readonly band?: { readonly low: readonly (number | null)[]; readonly high: readonly (number | null)[] };
}

export interface ChartProps {
  /** What the chart shows, in one sentence, for screen readers. */
  readonly label: string;
  /** In any order. Times are in ms since the Unix epoch. */
  readonly x: readonly number[];
  readonly series: readonly Series[];
  readonly xLabel: string;
  readonly yLabel: string;
  /** A log axis leaves out values that are not positive. */
  readonly xKind?: 'number' | 'time' | 'log';
  readonly yKind?: 'number' | 'log';
  /** Category names for x = 0, 1, 2 ... */
  readonly xNames?: readonly string[];
  /** Name of each x value, for the table. */
  readonly rowNames?: readonly string[];
  /** The y axis starts at 0. Charts with bars always do. */
  readonly startsAtZero?: boolean;
  /** Height in CSS pixels. */
  readonly height?: number;
  /** Text for the point under the cursor, instead of its x and y. */
  readonly describe?: (series: number, index: number) => string;
}
