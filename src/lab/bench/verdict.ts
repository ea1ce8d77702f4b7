import type { BenchVerdict } from '../types.ts';
import type { Estimate } from './statistics.ts';

/** Smaller effects are not reported. */
const minEffect = 0.01;
/** With fewer rounds, even unanimous results can be chance: 2 / 2^5 is more than 5%. */
export const minRounds = 6;

/** Log ratio that an interval must exclude: the measured difference between equal arms, at least 1%. */
function noiseFloor({ ratio, ci95 }: Estimate): number {
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
 * @param isDoubtful faster than the hardware allows, or with different outputs: a faster result is then `suspect`
 */
export function decideVerdict(
  { ci95, control }: Estimate & { readonly control: Estimate },
  { rounds, isDoubtful }: { rounds: number; isDoubtful: boolean },
): BenchVerdict {
  if (rounds < minRounds) return 'no_difference';
  const floor = noiseFloor(control);
  if (Math.log(ci95.low) > floor) return isDoubtful ? 'suspect' : 'faster';
  return Math.log(ci95.high) < -floor ? 'slower' : 'no_difference';
}
