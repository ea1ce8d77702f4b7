import type { BenchVerdict } from '../types.ts';
import type { Estimate } from './statistics.ts';

/** Less is not worth a word. */
const leastEffect = 0.01;
/** With fewer, even rounds that all say the same may be chance: 2 / 2^5 is more than 5%. */
export const leastRounds = 6;

/** What an interval must exclude, as the logarithm of a ratio: what the machine makes of equal arms, or 1%. */
function noiseFloor({ ratio, ci95 }: Estimate): number {
  const [seen, low, high] = [ratio, ci95.low, ci95.high].map((one) => Math.log(one)) as [
    number,
    number,
    number,
  ];
  // Equal arms that differ by more than chance: nothing below the most that they may differ by can be believed.
  const differs = low > 0 || high < 0;
  return Math.max(
    Math.log(1 + leastEffect),
    Math.abs(seen),
    differs ? Math.max(Math.abs(low), Math.abs(high)) : 0,
  );
}

/**
 * @param doubted faster than the hardware allows, or with other outputs: what looks faster then is `suspect`
 */
export function decide(
  { ci95, control }: Estimate & { readonly control: Estimate },
  { rounds, doubted }: { rounds: number; doubted: boolean },
): BenchVerdict {
  if (rounds < leastRounds) return 'no_difference';
  const floor = noiseFloor(control);
  if (Math.log(ci95.low) > floor) return doubted ? 'suspect' : 'faster';
  return Math.log(ci95.high) < -floor ? 'slower' : 'no_difference';
}
