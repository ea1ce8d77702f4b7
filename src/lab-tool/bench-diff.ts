/**
 * Compares two bench results. A machine is not equally fast at two times, so figures are relative to the baseline of the same run: ratios of
 * speed, and times of components as fractions of a step with it.
 */
import type { BenchResult, Interval } from '../lab/types.ts';
import { decodeOf, verdictWithAmount } from './bench-text.ts';
import { formatAmount, formatRatio } from './figures.ts';
import { groupByLayer } from './layer-groups.ts';
import type { OutputStyle } from '../terminal/style.ts';
import { table, type TableCell } from '../terminal/table.ts';
import { printable } from '../terminal/printable.ts';

interface Speed {
  /** Speed divided by that of the baseline in the same run. */
  readonly ratio: number;
  readonly ci95: Interval;
}

interface SpeedComparison {
  readonly figure: string;
  readonly a: Speed | null;
  readonly b: Speed | null;
  /** b / a. */
  readonly ratio: number | null;
  /** Whether the intervals have no value in common. */
  readonly differs: boolean;
}

interface ComponentComparison {
  readonly component: string;
  /** GPU time divided by that of a decoded token with the baseline, in the same run. */
  readonly a: number | null;
  readonly b: number | null;
  /** b / a. */
  readonly ratio: number | null;
}

export interface BenchDiff {
  readonly kind: 'benches';
  readonly decode: Readonly<Record<'a' | 'b', ReturnType<typeof decodeOf> & { readonly effect: number }>>;
  readonly speeds: readonly SpeedComparison[];
  readonly components: readonly ComponentComparison[];
  /** Differences between what was measured, which limit the comparison. */
  readonly differences: readonly string[];
}

const maxShownComponents = 12;

const speedsOf = (result: BenchResult): ReadonlyMap<string, Speed> =>
  new Map<string, Speed>([
    ['decode', decodeOf(result)],
    ...result.decode.map((row) => [`decode at ${row.context}`, row] as const),
    [`prefill of ${result.prefill.prompt_tokens}`, result.prefill],
  ]);

/** Components of the bound arm; those that a fused kernel replaces have no time there. */
function componentsOf({ components }: BenchResult): ReadonlyMap<string, number> {
  const stepMs = components.reduce((sum, { baseline_ms: ms = 0 }) => sum + ms, 0);
  return new Map(stepMs > 0 ? components.map(({ id, gpu_ms: ms }) => [id, ms / stepMs]) : []);
}

export function diffBenches(a: BenchResult, b: BenchResult): BenchDiff {
  const [leftSpeeds, rightSpeeds] = [speedsOf(a), speedsOf(b)];
  const speeds = [...new Set([...leftSpeeds.keys(), ...rightSpeeds.keys()])].map((figure) => {
    const [left, right] = [leftSpeeds.get(figure), rightSpeeds.get(figure)].map(
      (speed) => speed && { ratio: speed.ratio, ci95: speed.ci95 },
    );
    return {
      figure,
      a: left ?? null,
      b: right ?? null,
      ratio: ratioOf(left?.ratio ?? null, right?.ratio ?? null),
      differs:
        left !== undefined &&
        right !== undefined &&
        (left.ci95.high < right.ci95.low || right.ci95.high < left.ci95.low),
    };
  });
  const [left, right] = [componentsOf(a), componentsOf(b)];
  const components = [...new Set([...left.keys(), ...right.keys()])].map((component) => {
    const [before, after] = [left.get(component) ?? null, right.get(component) ?? null];
    return { component, a: before, b: after, ratio: ratioOf(before, after) };
  });
  const compared = ['adapter', 'backend', 'driver', 'dawn', 'model'] as const;
  const baselines = [a, b].map(({ beside = [] }) => ['built-in kernels', ...beside].join(' and '));
  const differences = [
    ...compared
      .filter((member) => a.fingerprint[member] !== b.fingerprint[member])
      .map((member) => `${member}: ${a.fingerprint[member]} / ${b.fingerprint[member]}`),
    ...(baselines[0] === baselines[1] ? [] : [`baseline: ${baselines.join(' / ')}`]),
  ];
  return {
    kind: 'benches',
    decode: { a: { ...decodeOf(a), effect: a.effect }, b: { ...decodeOf(b), effect: b.effect } },
    speeds,
    components,
    differences,
  };
}

/** Groups the same component of all layers in one row with the total time, as `bench` does. */
function groupLayers(components: readonly ComponentComparison[]): ComponentComparison[] {
  const groups = groupByLayer(
    components.map((one) => ({ ...one, id: one.component })),
    ({ a, b }) => `${a === null} ${b === null}`,
  );
  return groups.map(({ pattern, items }) => {
    const [a, b] = [totalOf(items.map((one) => one.a)), totalOf(items.map((one) => one.b))];
    return { component: pattern, a, b, ratio: ratioOf(a, b) };
  });
}

const totalOf = (values: readonly (number | null)[]): number | null =>
  values.reduce((total, value) => (total === null || value === null ? null : total + value), 0);
const ratioOf = (a: number | null, b: number | null): number | null =>
  a === null || b === null || a === 0 ? null : b / a;

export function benchDiffLines(
  { decode, speeds, components, differences }: BenchDiff,
  [nameA, nameB]: readonly [string, string],
  look: OutputStyle,
): string[] {
  const { paint } = look;
  const speedText = (speed: Speed | null) => (speed ? formatAmount(speed.ratio, speed.ci95) : '-');
  const speedRows = speeds.map(({ figure, a, b, ratio, differs }): TableCell[] => [
    figure,
    speedText(a),
    speedText(b),
    differs ? [(ratio ?? 1) > 1 ? 'good' : 'bad', formatRatio(ratio)] : formatRatio(ratio),
    a === null || b === null ? '-' : differs ? 'yes' : 'no',
  ]);
  const groups = groupLayers(components).toSorted((x, y) => (y.a ?? y.b ?? 0) - (x.a ?? x.b ?? 0));
  const share = (value: number | null) => (value === null ? '-' : `${(100 * value).toFixed(1)}%`);
  const componentRows = groups
    .slice(0, maxShownComponents)
    .map(({ component, a, b, ratio }): TableCell[] => [component, share(a), share(b), formatRatio(ratio)]);
  const right = { align: 'right' } as const;
  return [
    `A ${printable(nameA)}: ${verdictWithAmount('decode', decode.a, decode.a.effect)}`,
    `B ${printable(nameB)}: ${verdictWithAmount('decode', decode.b, decode.b.effect)}`,
    ...differences.map((line) => paint('warn', `! different ${printable(line)}`)),
    '',
    ...table(
      [
        { title: 'speed', minWidth: 8 },
        { title: 'A', ...right },
        { title: 'B', ...right },
        { title: 'B/A', ...right },
        { title: 'differs' },
      ],
      speedRows,
      look,
    ),
    ...(componentRows.length === 0
      ? []
      : [
          '',
          ...table(
            [
              { title: 'GPU time of', minWidth: 20 },
              { title: 'A', ...right },
              { title: 'B', ...right },
              { title: 'B/A', ...right },
            ],
            componentRows,
            look,
          ),
        ]),
    ...(groups.length > maxShownComponents
      ? [paint('dim', `${groups.length - maxShownComponents} more in --json`)]
      : []),
    paint('dim', 'speed and GPU time are relative to the baseline of the same run'),
  ];
}
