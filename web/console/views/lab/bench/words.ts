/** What a bench says, in words. Ratios are of times, built-in by bound: above 1 is faster. */
import type { BenchResult } from './runs.ts';

export type Verdict = BenchResult['verdict'];

export const verdictWords: Readonly<Record<Verdict, string>> = {
  faster: 'Faster',
  slower: 'Slower',
  no_difference: 'No difference',
  suspect: 'Suspect',
};

export const verdictTones = {
  faster: 'good',
  slower: 'bad',
  no_difference: undefined,
  suspect: 'warn',
} as const satisfies Readonly<Record<Verdict, 'good' | 'bad' | 'warn' | undefined>>;

/** Of an unknown host or an old row: as it is written. */
export const isVerdict = (text: string): text is Verdict => Object.hasOwn(verdictWords, text);

/** `+4.2 %`, of a ratio. */
export function formatChange(ratio: number): string {
  const percent = (ratio - 1) * 100;
  return `${percent < 0 ? '−' : '+'}${Math.abs(percent).toFixed(1)} %`;
}

export const formatRange = (low: number, high: number): string =>
  `${formatChange(low)} to ${formatChange(high)}`;

/** What was found, and what it means. */
export function explained({
  verdict,
  ratio_ci95: [low, high],
  delta,
  rounds,
  fingerprint,
}: BenchResult): string {
  const kernels = Object.keys(fingerprint.kernels).join(', ');
  const what = kernels === '' ? 'Decoding with the built-ins against themselves' : `Decoding with ${kernels}`;
  const found = `${what}: ${formatChange(1 + delta.decode)} (95 % interval ${formatRange(low, high)}, ${rounds} rounds).`;
  return `${found} ${meanings[verdict]}`;
}

const meanings: Readonly<Record<Verdict, string>> = {
  faster: 'The interval stays away from no difference, further than the built-ins differ from themselves.',
  slower: 'The interval stays away from no difference, further than the built-ins differ from themselves.',
  no_difference:
    'That is no further from no difference than chance, or than the built-ins are from themselves. More rounds or a quieter machine tell more.',
  suspect:
    "That is more than this adapter's measured peaks allow, or the outputs differ: something is skipped.",
};

/** Three digits are all that a measurement is good for. */
export const figure = (value: number): string => Number(value.toPrecision(3)).toString();
