/** Random number generator: uniform in [0, 1). */
export type Random = () => number;

/** Seeded generator (mulberry32): the same seed gives the same numbers on every platform. */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Random integer in [0, end). */
export const randomInteger = (random: Random, end: number): number => Math.floor(random() * end);

/** The same values in random order. */
export function shuffled<T>(values: readonly T[], random: Random): T[] {
  const result = [...values];
  for (let last = result.length - 1; last > 0; last--) {
    const other = randomInteger(random, last + 1);
    [result[last], result[other]] = [result[other] as T, result[last] as T];
  }
  return result;
}
