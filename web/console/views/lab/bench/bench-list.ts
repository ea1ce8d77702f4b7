/** Rows of the history of benches, and what its chart plots. */
import type { Series } from '../../../../ui/plot/types.ts';
import { shortDigest } from '../kernels/paths.ts';
import { kernelName } from '../graph/graph-model.ts';
import type { BenchSummary } from './queries.ts';
import { creditedVerdict, formatEstimate, formatFigure, isVerdict } from './verdict-text.ts';

export interface Filter {
  readonly kernel: string;
  readonly model: string;
  /** Slot of a component whose GPU time is shown; empty: the whole model. */
  readonly component: string;
}

export type Measure = 'decode' | 'prefill' | 'decode_tps' | 'prefill_tps';

export const measureTitles: Readonly<Record<Measure, string>> = {
  decode: 'Decode ratio',
  prefill: 'Prompt ratio',
  decode_tps: 'Decode tokens/s',
  prefill_tps: 'Prompt tokens/s',
};

export const filterBenches = (
  benches: readonly BenchSummary[],
  { kernel, model, component }: Filter,
): readonly BenchSummary[] =>
  benches.filter(
    (one) =>
      (kernel === '' || one.kernels.some(({ name }) => name === kernel)) &&
      (model === '' || one.model === model) &&
      (component === '' || componentOf(one, component) !== undefined),
  );

/** What can be filtered by, in alphabetical order. */
export const filterChoices = (benches: readonly BenchSummary[]) => ({
  kernels: sorted(benches.flatMap(({ kernels }) => kernels.map(({ name }) => name))),
  models: sorted(benches.map(({ model }) => model)),
  components: sorted(benches.flatMap(({ components = [] }) => components.map(({ slot }) => slot))),
});

const sorted = (values: readonly string[]): readonly string[] => [...new Set(values)].toSorted();

/** GPU time of a slot in a decoded token; over its kernels, if layers run different ones. */
export function componentOf({ components = [] }: BenchSummary, slot: string) {
  const members = components.filter((one) => one.slot === slot);
  if (members.length === 0) return undefined;
  const total = (values: readonly (number | undefined)[]) =>
    values.includes(undefined) ? undefined : values.reduce<number>((sum, one) => sum + (one ?? 0), 0);
  return {
    kernel: [...new Set(members.map(({ kernel }) => kernelName(kernel).name))].join(', '),
    ms: total(members.map(({ gpu_ms: ms }) => ms)) ?? 0,
    builtinMs: total(members.map(({ baseline_ms: ms }) => ms)),
  };
}

/** The verdict of decoding, which is never faster or slower inside the noise. */
export const verdictOfBench = ({ verdict, decode }: BenchSummary): string =>
  isVerdict(verdict) && decode
    ? creditedVerdict({ verdict, ci95: decode.ci95, control: decode.control })
    : verdict;

interface Point {
  readonly value: number | null;
  readonly low: number | null;
  readonly high: number | null;
}

function pointOf(bench: BenchSummary, measure: Measure, component: string): Point {
  const plain = (value: number | null | undefined): Point => ({
    value: value ?? null,
    low: null,
    high: null,
  });
  if (component !== '') return plain(componentOf(bench, component)?.ms);
  if (measure === 'decode_tps') return plain(bench.bound_decode_tps);
  if (measure === 'prefill_tps') return plain(bench.bound_prefill_tps);
  const estimate = measure === 'prefill' ? bench.prefill : bench.decode;
  if (!estimate) return plain(null);
  return { value: estimate.ratio, low: estimate.ci95.low, high: estimate.ci95.high };
}

/** `my_norm 0123456789ab, lathe 1.2.3`: points of one series have the same kernels and the same version of lathe. */
export const groupOf = ({ kernels, lathe }: BenchSummary): string =>
  `${kernels.length === 0 ? 'built-in kernels' : kernels.map(({ name, digest }) => `${name} ${shortDigest(digest)}`).join(' + ')}${lathe === undefined ? '' : `, lathe ${lathe}`}`;

/** More series cannot be told apart. */
const maxGroups = 6;

export interface HistoryChart {
  readonly x: readonly number[];
  readonly series: readonly Series[];
  readonly yLabel: string;
  /** Whether it plots ratios, with intervals. */
  readonly isRatio: boolean;
  /** The text for a point. */
  readonly describe: (series: number, index: number) => string;
}

/** One series for each kernel and version of lathe, the newest first; a line at 1 for ratios. */
export function historyChart(
  benches: readonly BenchSummary[],
  { measure, component }: { readonly measure: Measure; readonly component: string },
): HistoryChart {
  const shown = benches.toReversed();
  const points = shown.map((one) => pointOf(one, measure, component));
  const names = [...new Set(benches.map(groupOf))];
  const kept = names.length <= maxGroups ? names : names.slice(0, maxGroups - 1);
  const nameOf = (one: BenchSummary) => (kept.includes(groupOf(one)) ? groupOf(one) : 'earlier kernels');
  const groups = names.length === kept.length ? kept : [...kept, 'earlier kernels'];
  const isRatio = component === '' && (measure === 'decode' || measure === 'prefill');
  const only = (group: string, pick: (point: Point) => number | null) =>
    points.map((point, index) => {
      const bench = shown[index];
      return bench && nameOf(bench) === group ? pick(point) : null;
    });
  return {
    isRatio,
    x: shown.map(({ at }) => new Date(at).getTime()),
    yLabel: component !== '' ? 'GPU time, ms' : isRatio ? 'Speed vs. built-ins' : 'Tokens/s',
    series: [
      ...groups.map(
        (name, index): Series => ({
          name,
          draw: 'points',
          color: index + 1,
          values: only(name, ({ value }) => value),
          ...(isRatio
            ? { band: { low: only(name, ({ low }) => low), high: only(name, ({ high }) => high) } }
            : {}),
        }),
      ),
      ...(isRatio ? [{ name: 'No difference', values: shown.map(() => 1), color: 5 }] : []),
    ],
    describe: (_, index) => {
      const bench = shown[index];
      const point = points[index];
      if (!bench || !point || point.value === null) return '';
      const figure =
        point.low === null || point.high === null
          ? formatFigure(point.value)
          : formatEstimate({ ratio: point.value, ci95: { low: point.low, high: point.high } });
      return [groupOf(bench), figure, `${bench.model}, ${bench.adapter}`].join('\n');
    },
  };
}
