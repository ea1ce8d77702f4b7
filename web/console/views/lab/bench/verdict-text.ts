/** Texts for bench results. Ratios are built-in time over bound time: above 1 is faster. */
import type { BenchResult } from './runs.ts';

export type Verdict = BenchResult['verdict'];

export const verdictLabels: Readonly<Record<Verdict, string>> = {
  faster: 'Faster',
  slower: 'Slower',
  no_difference: 'No difference',
  inconclusive: 'Inconclusive',
  suspect: 'Suspect',
};

export const verdictTones = {
  faster: 'good',
  slower: 'bad',
  no_difference: undefined,
  inconclusive: 'warn',
  suspect: 'warn',
} as const satisfies Readonly<Record<Verdict, 'good' | 'bad' | 'warn' | undefined>>;

/** False for values of other host versions, which are shown unchanged. */
export const isVerdict = (text: string): text is Verdict => Object.hasOwn(verdictLabels, text);

/** Formats a ratio as `+4.2 %`. */
export function formatChange(ratio: number): string {
  const percent = (ratio - 1) * 100;
  return `${percent < 0 ? '−' : '+'}${Math.abs(percent).toFixed(1)} %`;
}

export const formatRange = (low: number, high: number): string =>
  `${formatChange(low)} to ${formatChange(high)}`;

/** The measured change and its meaning. */
export function explainVerdict({
  verdict,
  ratio_ci95: [low, high],
  delta,
  rounds,
  fingerprint,
}: BenchResult): string {
  const kernels = Object.keys(fingerprint.kernels).join(', ');
  const subject = kernels === '' ? 'Decoding with built-ins vs. built-ins' : `Decoding with ${kernels}`;
  const measured = `${subject}: ${formatChange(1 + delta.decode)} (95 % interval ${formatRange(low, high)}, ${rounds} rounds).`;
  return `${measured} ${verdictMeanings[verdict]}`;
}

const verdictMeanings: Readonly<Record<Verdict, string>> = {
  faster:
    'The interval excludes no difference, and the change is larger than the difference between two built-in runs.',
  slower:
    'The interval excludes no difference, and the change is larger than the difference between two built-in runs.',
  no_difference:
    'The interval lies within the smallest difference that was asked about, so the change is smaller. A smaller one can be asked for.',
  inconclusive:
    'The interval is wider than the smallest difference that was asked about, or no farther from no difference than two built-in runs are. More rounds or an idle machine narrow it.',
  suspect:
    'The result exceeds the measured peak rates of this adapter, or the outputs differ: the kernel may skip work.',
};

/** Formats a measurement with three significant digits. */
export const formatFigure = (value: number): string => Number(value.toPrecision(3)).toString();
