import type { BenchResult } from '../lab/types.ts';
import { verdictText } from './bench-text.ts';
import { formatRatio, formatNumber } from './figures.ts';
import { groupByLayer } from './layer-groups.ts';
import type { OutputStyle } from '../terminal/style.ts';
import { table, type TableCell } from '../terminal/table.ts';
import { printable } from '../terminal/printable.ts';

interface FigureComparison {
  readonly figure: string;
  readonly unit: 'tokens/s' | 'ms' | 'times';
  readonly a: number | null;
  readonly b: number | null;
  /** b / a. */
  readonly ratio: number | null;
}

export interface BenchDiff {
  readonly kind: 'benches';
  readonly verdicts: { readonly a: BenchResult['verdict']; readonly b: BenchResult['verdict'] };
  readonly figures: readonly FigureComparison[];
  /** Differences between the fingerprints, which limit the comparison. */
  readonly differences: readonly string[];
}

const maxShownComponents = 12;

type Figures = Map<string, { unit: FigureComparison['unit']; value: number }>;

function figuresOf(result: BenchResult): Figures {
  const figures: Figures = new Map();
  const add = (name: string, unit: FigureComparison['unit'], value: number | null | undefined) => {
    if (typeof value === 'number') figures.set(name, { unit, value });
  };
  add('decode, built-in', 'tokens/s', result.baseline.decode_tps);
  add('decode, bound', 'tokens/s', result.bound.decode_tps);
  add('prefill, built-in', 'tokens/s', result.baseline.prefill_tps);
  add('prefill, bound', 'tokens/s', result.bound.prefill_tps);
  add('prefill, bound / built-in', 'times', result.prefill?.ratio);
  for (const each of result.decode ?? []) {
    add(`decode at ${each.context}, bound`, 'tokens/s', each.bound_tps);
    add(`decode at ${each.context}, bound / built-in`, 'times', each.ratio);
  }
  for (const each of result.components) add(each.id, 'ms', each.gpu_ms);
  return figures;
}

/** Compares the figures of two bench results. */
export function diffBenches(a: BenchResult, b: BenchResult): BenchDiff {
  const [left, right] = [figuresOf(a), figuresOf(b)];
  const names = [...new Set([...left.keys(), ...right.keys()])];
  const figures = names.map((figure) => {
    const [from, to] = [left.get(figure), right.get(figure)];
    const [before, after] = [from?.value ?? null, to?.value ?? null];
    return {
      figure,
      unit: from?.unit ?? to?.unit ?? 'times',
      a: before,
      b: after,
      ratio: ratioOf(before, after),
    };
  });
  const compared = ['adapter', 'backend', 'driver', 'dawn', 'model'] as const;
  const differences = compared
    .filter((member) => a.fingerprint[member] !== b.fingerprint[member])
    .map((member) => `${member}: ${a.fingerprint[member]} / ${b.fingerprint[member]}`);
  return { kind: 'benches', verdicts: { a: a.verdict, b: b.verdict }, figures, differences };
}

/** Groups the same component of all layers in one row with the total time, as `bench` does. */
function groupLayers(times: readonly FigureComparison[]): FigureComparison[] {
  const groups = groupByLayer(
    times.map((pair) => ({ ...pair, id: pair.figure })),
    ({ a, b }) => `${a === null} ${b === null}`,
  );
  return groups.map(({ pattern, items }) => {
    const [a, b] = [totalOf(items.map((pair) => pair.a)), totalOf(items.map((pair) => pair.b))];
    return { figure: pattern, unit: 'ms', a, b, ratio: ratioOf(a, b) };
  });
}

const totalOf = (values: readonly (number | null)[]): number | null =>
  values.reduce((total, value) => (total === null || value === null ? null : total + value), 0);
const ratioOf = (a: number | null, b: number | null): number | null =>
  a === null || b === null || a === 0 ? null : b / a;

export function benchDiffLines(
  diff: BenchDiff,
  names: readonly [string, string],
  look: OutputStyle,
): string[] {
  const { paint } = look;
  const { figures } = diff;
  const times = groupLayers(figures.filter(({ unit }) => unit === 'ms')).sort(
    (x, y) => (y.a ?? y.b ?? 0) - (x.a ?? x.b ?? 0),
  );
  const rowsToShow = [...figures.filter(({ unit }) => unit !== 'ms'), ...times.slice(0, maxShownComponents)];
  const rows = rowsToShow.map(({ figure, unit, a, b, ratio: ratioValue }): TableCell[] => {
    // For times, less is better; for the other figures, more.
    const gain = ratioValue === null ? 0 : unit === 'ms' ? 1 - ratioValue : ratioValue - 1;
    return [
      figure,
      unit,
      formatNumber(a),
      formatNumber(b),
      Math.abs(gain) < 0.005 ? formatRatio(ratioValue) : [gain > 0 ? 'good' : 'bad', formatRatio(ratioValue)],
    ];
  });
  const columns = [
    { title: 'figure', minWidth: 20 },
    { title: 'unit' },
    { title: 'A', align: 'right' },
    { title: 'B', align: 'right' },
    { title: 'B/A', align: 'right' },
  ] as const;
  return [
    `A ${printable(names[0])} (${verdictText(diff.verdicts.a)})  B ${printable(names[1])} (${verdictText(diff.verdicts.b)})`,
    ...diff.differences.map((line) => paint('warn', `! different ${printable(line)}`)),
    '',
    ...table(columns, rows, look),
    ...(times.length > maxShownComponents
      ? [paint('dim', `${times.length - maxShownComponents} more in --json`)]
      : []),
  ];
}
