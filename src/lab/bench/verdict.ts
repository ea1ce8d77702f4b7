import type { BenchVerdict } from '../types.ts';
import type { Estimate } from './statistics.ts';

/** Smaller effects are not reported. */
export const minEffect = 0.01;
/** With fewer rounds, even unanimous results can be chance: 2 / 2^5 is more than 5%. */
export const minRounds = 6;

/** Log ratio that an interval must exclude: the measured difference between equal arms, at least 1%. */
export function noiseFloor({ ratio, ci95 }: Estimate): number {
  const [measured, low, high] = [ratio, ci95.low, ci95.high].map((one) => Math.log(one)) as [
    number,
    number,
    number,
  ];
  // If equal arms differ by more than chance, effects up to their largest plausible difference are not credible.
  const armsDiffer = low > 0 || high < 0;
  return Math.max(
    Math.log(1 + minEffect),
    Math.abs(measured),
    armsDiffer ? Math.max(Math.abs(low), Math.abs(high)) : 0,
  );
}

/**
 * Half-width of an interval, as a log ratio, with which an effect is found in 19 of 20 benches: the estimate may be 0.84 half-widths
 * too small, and the interval must still exclude the difference that equal arms show.
 */
export const decisiveHalfWidth = (effect: number): number => Math.log(1 + effect) / 2.6;

/**
 * - `faster`, `slower`: the interval excludes no difference and the noise;
 * - `no_difference`: the whole interval is within the effect;
 * - `inconclusive`: it is wider, or there are too few rounds.
 *
 * @param isDoubtful faster than the hardware allows, or with different outputs: a faster result is then `suspect`
 * @param effect smallest difference that was asked about, relative
 */
export function decideVerdict(
  { ci95, control }: Estimate & { readonly control: Estimate },
  { rounds, isDoubtful, effect }: { rounds: number; isDoubtful: boolean; effect: number },
): BenchVerdict {
  if (rounds < minRounds) return 'inconclusive';
  const floor = noiseFloor(control);
  const [low, high] = [Math.log(ci95.low), Math.log(ci95.high)];
  if (low > floor) return isDoubtful ? 'suspect' : 'faster';
  if (high < -floor) return 'slower';
  const margin = Math.log(1 + effect);
  return low > -margin && high < margin ? 'no_difference' : 'inconclusive';
}
