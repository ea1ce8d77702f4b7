import type { BenchResult, Comparison } from '../lab/types.ts';
import {
  formatAmount,
  formatChange,
  pluralize,
  formatPercent,
  formatRatio,
  formatNumber,
} from './figures.ts';
import { groupByLayer } from './layer-groups.ts';
import type { OutputStyle, Style } from '../terminal/style.ts';
import { table, type TableCell } from '../terminal/table.ts';
import { printable } from '../terminal/printable.ts';
import { wrapText } from '../terminal/text.ts';

type Verdict = BenchResult['verdict'];
type Component = BenchResult['components'][number];
const colors: Readonly<Record<Verdict, Style>> = {
  faster: 'good',
  slower: 'bad',
  no_difference: 'note',
  inconclusive: 'warn',
  suspect: 'warn',
};
const maxShownComponents = 12;

export const verdictText = (verdict: Verdict): string => verdict.replace('_', ' ');

/** One sentence with the verdict of a comparison. */
export function verdictSentence(
  what: string,
  { ratio: value, ci95, control, verdict }: Comparison,
  effect: number,
): string {
  const percentText = formatChange(Math.abs(value - 1)).slice(1);
  const interval = `95% interval ${formatChange(ci95.low - 1)} to ${formatChange(ci95.high - 1)}`;
  const noise = `baseline compared with itself ${formatChange(control.ratio - 1)}`;
  switch (verdict) {
    case 'faster':
      return `${what} is ${percentText} faster with the bound kernels (${interval}; ${noise}).`;
    case 'slower':
      return `${what} is ${percentText} slower with the bound kernels (${interval}; ${noise}).`;
    case 'suspect':
      return `${what} appears ${percentText} faster, but outputs differ or the adapter cannot be that fast: do not rely on it (${interval}; ${noise}).`;
    case 'no_difference':
      return `${what}: no difference of ${formatPercent(effect)} or more (${interval}; ${noise}).`;
    default:
      return `${what}: inconclusive, a difference of ${formatPercent(effect)} would not be seen in this noise (${interval}; ${noise}).`;
  }
}

/**
 * `decode +4.2% (+1.7% to +9.0%) faster`
 * @param effect smallest difference that was asked about
 */
export const verdictWithAmount = (
  what: string,
  { ratio, ci95, verdict }: Pick<Comparison, 'ratio' | 'ci95' | 'verdict'>,
  effect: number,
): string =>
  `${what} ${formatAmount(ratio, ci95)} ${verdictText(verdict)}${verdict === 'no_difference' ? ` of ${formatPercent(effect)} or more` : ''}`;

/** The comparison of decoding over all contexts. */
export const decodeOf = ({
  delta,
  ratio_ci95: [low, high],
  verdict,
}: Pick<BenchResult, 'delta' | 'ratio_ci95' | 'verdict'>) => ({
  ratio: 1 + delta.decode,
  ci95: { low, high },
  verdict,
});

/** Kernels that a bench measured. */
export const measuredKernels = ({ fingerprint }: Pick<BenchResult, 'fingerprint'>): readonly string[] => [
  // Names are followed by the overrides that the tuning sweep chose.
  ...new Set(Object.keys(fingerprint.kernels).map((name) => name.split(' ')[0] ?? name)),
];

/** What was measured, and how it compares. */
export function benchSummary(result: BenchResult, { paint, width }: OutputStyle): string[] {
  const { prefill, rounds, effect, beside = [] } = result;
  const names = measuredKernels(result);
  const what = names.length === 0 ? 'built-in kernels against themselves' : names.join(', ');
  const line = (name: string, compared: Pick<Comparison, 'ratio' | 'ci95' | 'verdict'>) =>
    `  ${paint(colors[compared.verdict], verdictWithAmount(name, compared, effect))}`;
  return [
    ...wrapText(
      printable(
        [
          `bench  ${what}, ${pluralize(rounds, 'round')}`,
          ...(beside.length === 0 ? [] : [`beside ${beside.join(', ')}, which both arms run`]),
        ].join(', '),
      ),
      width,
      '  ',
    ),
    line('decode ', decodeOf(result)),
    line('prefill', prefill),
  ];
}

export function benchLines(result: BenchResult, look: OutputStyle): string[] {
  const { paint, width } = look;
  const row = (what: string, baseline: number, bound: number, compared: Comparison): TableCell[] => [
    what,
    formatNumber(baseline),
    formatNumber(bound),
    formatRatio(compared.ratio),
    `${formatRatio(compared.ci95.low)} to ${formatRatio(compared.ci95.high)}`,
    formatRatio(compared.control.ratio),
    [colors[compared.verdict], verdictText(compared.verdict)],
  ];
  const columns = [
    { title: 'tokens/s', minWidth: 8 },
    { title: baselineTitle(result.beside), align: 'right' },
    { title: 'bound', align: 'right' },
    { title: 'ratio', align: 'right' },
    { title: '95% interval', align: 'right' },
    { title: 'control', align: 'right' },
    { title: 'verdict' },
  ] as const;
  const { prefill, decode, baseline, bound, fingerprint } = result;
  const sentences = [
    ...decode.map((each) => verdictSentence(`Decoding at ${each.context} tokens`, each, result.effect)),
    verdictSentence(`Prefill of ${prefill.prompt_tokens} tokens`, prefill, result.effect),
  ];
  return [
    ...benchSummary(result, look),
    '',
    ...table(
      columns,
      [
        ...decode.map((each) => row(`decode at ${each.context}`, each.baseline_tps, each.bound_tps, each)),
        row(`prefill ${prefill.prompt_tokens}`, baseline.prefill_tps, bound.prefill_tps, prefill),
      ],
      look,
    ),
    '',
    ...sentences.flatMap((sentence) => wrapText(sentence, width, '  ')),
    ...[...unboundWarning(result), ...result.warnings]
      .flatMap((warning) => wrapText(`! ${printable(warning)}`, width, '  '))
      .map((line) => paint('warn', line)),
    ...componentLines(result, look),
    '',
    paint('dim', `${pluralize(result.rounds, 'round')}, seed ${fingerprint.seed}`),
    ...wrapText(
      printable(`${fingerprint.driver} (${fingerprint.backend}), Dawn ${fingerprint.dawn}`),
      width,
      '  ',
    ).map((line) => paint('dim', line)),
  ];
}

const baselineTitle = (beside: readonly string[] = []): string =>
  beside.length === 0 ? 'built-in' : 'baseline';

const unboundWarning = ({ components }: BenchResult): string[] =>
  components.length > 0 && components.every(isBuiltin)
    ? ['no kernel is bound: the built-in kernels were compared with themselves']
    : [];

/** The components with the longest GPU times, with their fraction of the adapter's peaks. */
function componentLines({ components, peaks, beside = [] }: BenchResult, look: OutputStyle): string[] {
  if (components.length === 0) return [];
  const groups = groupByLayer(components, (each) => each.kernel)
    .map(({ pattern, items }) => ({ pattern, kernel: items[0]?.kernel ?? '', ...totals(items) }))
    .sort((a, b) => b.gpu_ms - a.gpu_ms);
  const rows = groups
    .slice(0, maxShownComponents)
    .map((each): TableCell[] => [
      each.pattern,
      isBuiltin(each) ? ['dim', 'built-in'] : ['good', each.kernel],
      formatNumber(each.gpu_ms),
      formatNumber(each.baseline_ms),
      formatNumber(each.gbps),
      formatNumber(each.gflops),
      formatPercent(each.peak_fraction),
    ]);
  // One hint for each kernel: that of its slowest component.
  const hints = new Map(
    components
      .filter((each) => !isBuiltin(each) && each.hint !== '')
      .sort((a, b) => a.gpu_ms - b.gpu_ms)
      .map(({ kernel, hint }) => [kernel, `${kernel}: ${hint}`]),
  );
  const columns = [
    { title: 'components', minWidth: 14 },
    { title: 'kernel', minWidth: 10 },
    { title: 'GPU ms', align: 'right' },
    { title: baselineTitle(beside), align: 'right' },
    { title: 'GB/s', align: 'right' },
    { title: 'GFLOP/s', align: 'right' },
    { title: 'of peak', align: 'right' },
  ] as const;
  const more = groups.length - rows.length;
  return [
    '',
    ...table(columns, rows, look),
    look.paint(
      'dim',
      `${more > 0 ? `${more} more in --json; ` : ''}peaks measured here: ${formatNumber(peaks.gbps)} GB/s, ${formatNumber(peaks.gflops)} GFLOP/s`,
    ),
    ...[...hints.values()].flatMap((hint) => wrapText(printable(hint), look.width, '  ')),
  ];
}

const isBuiltin = ({ kernel }: { readonly kernel: string }): boolean => kernel.startsWith('builtin:');

/** Totals of a group: times are added, rates are averaged over time. */
function totals(items: readonly Component[]) {
  const total = (of: (item: Component) => number) => items.reduce((sum, item) => sum + of(item), 0);
  const gpu_ms = total((item) => item.gpu_ms);
  const rate = (of: (item: Component) => number) =>
    gpu_ms > 0 ? total((item) => of(item) * item.gpu_ms) / gpu_ms : undefined;
  return {
    gpu_ms,
    baseline_ms: items.some((item) => item.baseline_ms === undefined)
      ? undefined
      : total((item) => item.baseline_ms ?? 0),
    gbps: rate((item) => item.gbps),
    gflops: rate((item) => item.gflops),
    peak_fraction: rate((item) => item.peak_fraction),
  };
}
