import type { BenchResult, Compared } from '../types.ts';

const width = 100;
/** Rows of the component table; the rest is told together. */
const mostRows = 14;

/** A bench as plain text, at most 100 columns wide. */
export function renderBench(result: BenchResult): string {
  const { decode, prefill, delta, ratio_ci95: interval, peaks, fingerprint, baseline, bound } = result;
  const words = result.verdict.replace('_', ' ');
  const headline =
    `decode: ${words}, ${signed(delta.decode)} ` +
    `(95% ${signed(interval[0] - 1)} to ${signed(interval[1] - 1)}), ` +
    `${digits(baseline.decode_tps)} -> ${digits(bound.decode_tps)} tokens/s`;
  const speeds = table(
    ['', 'built-in t/s', 'bound t/s', 'ratio', '95% interval', 'built-in vs itself', 'verdict'],
    [
      speedRow(`prefill of ${prefill.prompt_tokens}`, baseline.prefill_tps, bound.prefill_tps, prefill),
      ...decode.map((one) => speedRow(`decode at ${one.context}`, one.baseline_tps, one.bound_tps, one)),
    ],
  );
  const adapter = `${fingerprint.adapter} (${fingerprint.backend}), driver ${fingerprint.driver}, Dawn ${fingerprint.dawn}`;
  const kernels = Object.entries(fingerprint.kernels).map(
    ([name, digest]) => `${name} ${digest.slice(0, 19)}`,
  );
  return [
    ...wrap(headline),
    '',
    speeds,
    ...componentLines(result.components),
    '',
    `peaks measured here: ${digits(peaks.gbps)} GB/s copied, ${digits(peaks.gflops)} GFLOP/s in f32`,
    ...result.warnings.flatMap((warning) => wrap(`warning: ${warning}`, 2)),
    '',
    ...wrap(`method: ${result.method}`, 2),
    ...wrap(`on ${adapter}`, 2),
    ...wrap(`model ${fingerprint.model}; seed ${fingerprint.seed}`, 2),
    ...(kernels.length > 0 ? wrap(`kernels ${kernels.join(', ')}`, 2) : []),
  ].join('\n');
}

function speedRow(name: string, baseline: number, bound: number, compared: Compared): string[] {
  const { ratio, ci95, control, verdict } = compared;
  return [
    name,
    digits(baseline),
    digits(bound),
    ratio.toFixed(3),
    range(ci95.low, ci95.high),
    range(control.ci95.low, control.ci95.high),
    verdict.replace('_', ' '),
  ];
}

type Component = BenchResult['components'][number];

/** The same component of all layers, as one. */
interface Group {
  readonly name: string;
  readonly count: number;
  readonly ms: number;
  readonly baselineMs: number | undefined;
  /** The one that takes longest. */
  readonly first: Component;
}

function componentLines(components: readonly Component[]): string[] {
  if (components.length === 0) return [];
  const groups = [...Map.groupBy(components, groupKey).values()].map(groupOf);
  groups.sort((a, b) => b.ms - a.ms || (b.baselineMs ?? 0) - (a.baselineMs ?? 0));
  const shown = groups.slice(0, mostRows);
  const rows = table(
    ['component', 'GPU ms', 'built-in ms', 'GB/s', 'GFLOP/s', 'of peak'],
    shown.map(({ name, count, ms, baselineMs, first }) => [
      cut(count > 1 ? `${name} x${count}` : name, 44),
      milliseconds(ms),
      baselineMs === undefined ? '-' : milliseconds(baselineMs),
      digits(first.gbps),
      digits(first.gflops),
      `${(first.peak_fraction * 100).toFixed(1)}%`,
    ]),
  ).split('\n');
  const [head = '', rule = '', ...lines] = rows;
  const details = lines.flatMap((line, index) => {
    const first = shown[index]?.first;
    return first ? [line, ...wrap(`  ${first.kernel}: ${first.hint}`, 4)] : [line];
  });
  const rest = groups.slice(mostRows);
  const restMs = rest.reduce((sum, { ms }) => sum + ms, 0);
  return [
    '',
    head,
    rule,
    ...details,
    ...(rest.length > 0 ? [`and ${rest.length} smaller ones, ${milliseconds(restMs)} ms`] : []),
  ];
}

const anyLayer = (id: string): string => id.replace(/^layers\.\d+\./, 'layers.*.');
const groupKey = ({ id, kernel, gpu_ms: ms }: Component): string =>
  `${anyLayer(id)} ${kernel} ${ms === 0 ? 'gone' : 'runs'}`;

function groupOf(list: Component[]): Group {
  const first = list.reduce((longest, one) => (one.gpu_ms > longest.gpu_ms ? one : longest));
  const before = list.flatMap(({ baseline_ms: ms }) => (ms === undefined ? [] : [ms]));
  return {
    name: list.length > 1 ? anyLayer(first.id) : first.id,
    count: list.length,
    ms: list.reduce((sum, one) => sum + one.gpu_ms, 0),
    baselineMs: before.length > 0 ? before.reduce((sum, ms) => sum + ms, 0) : undefined,
    first,
  };
}

/** Columns padded to their widest cell; the first one left, the others right. */
function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, column) =>
    Math.max(title.length, ...rows.map((row) => (row[column] ?? '').length)),
  );
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, column) =>
        column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0),
      )
      .join('  ')
      .trimEnd();
  return [line(head), widths.map((one) => '-'.repeat(one)).join('  '), ...rows.map(line)].join('\n');
}

/** Lines of at most 100 columns, all but the first indented; words that are longer are broken. */
function wrap(text: string, indent = 0): string[] {
  const lines: string[] = [];
  let line = /^ */.exec(text)?.[0] ?? '';
  let empty = true;
  for (const word of text.trim().split(/\s+/)) {
    let rest = empty ? word : ` ${word}`;
    const fitsAlone = indent + word.length <= width;
    if (!empty && fitsAlone && line.length + rest.length > width) {
      lines.push(line);
      line = ' '.repeat(indent);
      rest = word;
    }
    while (line.length + rest.length > width) {
      const room = width - line.length;
      lines.push(line + rest.slice(0, room));
      rest = rest.slice(room);
      line = ' '.repeat(indent);
    }
    line += rest;
    empty = false;
  }
  return [...lines, line];
}

const cut = (text: string, most: number): string =>
  text.length <= most ? text : `${text.slice(0, most - 3)}...`;
const signed = (part: number): string => `${part < 0 ? '' : '+'}${(part * 100).toFixed(1)}%`;
const range = (low: number, high: number): string => `${low.toFixed(3)} to ${high.toFixed(3)}`;
const milliseconds = (ms: number): string => (ms === 0 ? '0' : ms.toFixed(ms < 0.1 ? 4 : 3));

/** A few digits: 1,234 or 56.7 or 0.89. */
function digits(value: number): string {
  if (value >= 99.95) return Math.round(value).toLocaleString('en');
  return value.toFixed(value >= 9.995 ? 1 : 2);
}
