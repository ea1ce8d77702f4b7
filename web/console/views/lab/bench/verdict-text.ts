/** Texts for bench results. Ratios are built-in time over bound time: above 1 is faster. */
import { minEffect, minRounds, noiseFloor } from '../../../../../src/lab/bench/verdict.ts';
import type { BenchResult } from './runs.ts';

export type Verdict = BenchResult['verdict'];
interface Estimate {
  readonly ratio: number;
  readonly ci95: { readonly low: number; readonly high: number };
}

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

export const formatEstimate = ({ ratio, ci95: { low, high } }: Estimate): string =>
  `${formatChange(ratio)} (${formatRange(low, high)})`;

/**
 * The difference that a bench cannot tell from none, relative: that of its built-in kernels to themselves, at least 1 %.
 * @param control undefined in benches of earlier versions
 */
export const noiseOf = (control: Estimate | undefined): number =>
  control ? Math.exp(noiseFloor(control)) - 1 : minEffect;

/** The wire's verdict; `inconclusive` where it says faster or slower, and the interval reaches into the noise. */
export function creditedVerdict({
  verdict,
  ci95: { low, high },
  control,
}: Pick<Estimate, 'ci95'> & { readonly verdict: Verdict; readonly control?: Estimate | undefined }): Verdict {
  const margin = 1 + noiseOf(control);
  if (verdict === 'faster') return low > margin ? verdict : 'inconclusive';
  if (verdict === 'slower') return high < 1 / margin ? verdict : 'inconclusive';
  return verdict;
}

type Compared = Pick<BenchResult, 'verdict' | 'ratio_ci95' | 'delta' | 'decode' | 'control'>;

/** The verdict over all contexts, which none of them may contradict. */
export function headlineVerdict({
  verdict,
  ratio_ci95: [low, high],
  delta,
  decode,
  control,
}: Compared): Verdict {
  const [onlyContext] = decode;
  const credited = creditedVerdict({
    verdict,
    ci95: { low, high },
    // Earlier versions have no control over all contexts; with one context, it is that of the context.
    control: control ?? (decode.length === 1 ? onlyContext?.control : undefined),
  });
  const opposite = credited === 'faster' ? 'slower' : credited === 'slower' ? 'faster' : undefined;
  const isContradicted = decode.some((row) => creditedVerdict(row) === opposite);
  return isContradicted || !Number.isFinite(delta.decode) ? 'inconclusive' : credited;
}

/** What was measured, the verdict, and by which margin. */
export function explainVerdict(result: BenchResult): string {
  const { ratio_ci95: range, delta, rounds, fingerprint, decode, effect, beside = [] } = result;
  const [low, high] = range;
  const names = [...new Set(Object.keys(fingerprint.kernels).map((name) => name.split(' ')[0] ?? name))];
  const subject =
    names.length === 0
      ? 'Decoding with the built-in kernels, compared with themselves'
      : `Decoding with ${names.join(', ')}${beside.length > 0 ? ` (beside ${beside.join(', ')} in both arms)` : ''}`;
  const verdict = headlineVerdict(result);
  const noise = noiseOf(result.control ?? decode[0]?.control);
  const measured = `${subject}: ${formatChange(1 + delta.decode)} (95 % interval ${formatRange(low, high)}, ${rounds} rounds).`;
  const decided = decode.flatMap((row) => {
    const credited = creditedVerdict(row);
    return credited === 'faster' || credited === 'slower' ? [{ ...row, credited }] : [];
  });
  const areOpposed = new Set(decided.map(({ credited }) => credited)).size > 1;
  return `${measured} ${verdictMeaning(verdict, { low, high, noise, effect, rounds, ...(areOpposed ? { opposed: decided.map(({ context, credited }) => `${credited} at ${context}`) } : {}) })}`;
}

interface Circumstances {
  readonly low: number;
  readonly high: number;
  /** Relative. */
  readonly noise: number;
  readonly effect: number;
  readonly rounds: number;
  /** Contexts with opposite verdicts. */
  readonly opposed?: readonly string[];
}

const percent = (share: number): string => `${Number((share * 100).toPrecision(2))} %`;

/** A verdict in words, with the margin that decides it. */
export function verdictMeaning(
  verdict: Verdict,
  { low, high, noise, effect, rounds, opposed }: Circumstances,
): string {
  switch (verdict) {
    case 'faster':
      return `Faster: the whole interval is above the noise of this bench, ±${percent(noise)}, by at least ${percent(low - 1 - noise)}.`;
    case 'slower':
      return `Slower: the whole interval is below the noise of this bench, ±${percent(noise)}, by at least ${percent(1 / (1 + noise) - high)}.`;
    case 'no_difference':
      return `No difference of ${percent(effect)} or more: the whole interval is within ±${percent(effect)}. A smaller difference can be asked for.`;
    case 'suspect':
      return 'Suspect: the result exceeds the measured peak rates of this adapter, or the outputs differ. The kernel may skip work.';
    default:
      if (rounds < minRounds)
        return `Inconclusive: ${rounds} rounds are too few, at least ${minRounds} are needed.`;
      if (opposed) return `Inconclusive: the contexts contradict one another, ${opposed.join(', ')}.`;
      return `Inconclusive: the interval reaches into the noise of this bench, ±${percent(noise)}, and beyond the ±${percent(effect)} that were asked about. More rounds or an idle machine narrow it.`;
  }
}

/** Formats a measurement with three significant digits. */
export const formatFigure = (value: number): string => Number(value.toPrecision(3)).toString();
