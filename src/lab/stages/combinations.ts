import type { KernelRegistration } from '../types.ts';

type Values = Readonly<Record<string, number>>;

/** Registrations with more combinations are rejected. */
export const maxCombinations = 64;

/** Number of tunable combinations of a registration; 1 without tunables. */
export function countCombinations({ tunables = {} }: KernelRegistration): number {
  return Object.values(tunables).reduce((product, values) => product * values.length, 1);
}

/**
 * Overrides of each combination, at most `maxCombinations`: those of the registration with a value for each tunable.
 */
export function combinationsOf({ overrides = {}, tunables = {} }: KernelRegistration): Values[] {
  let all: Values[] = [overrides];
  for (const [name, values] of Object.entries(tunables)) {
    all = all
      .flatMap((one) => values.slice(0, maxCombinations).map((value) => ({ ...one, [name]: value })))
      .slice(0, maxCombinations);
  }
  return all;
}
