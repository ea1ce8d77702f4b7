/** A small reproducible generator (mulberry32). @returns a function with uniform values in [0, 1) */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Some of the numbers below `count`, in ascending order: the given ones that exist, and `more` random ones. */
export function pickIndexes(
  count: number,
  always: readonly number[],
  more: number,
  random: () => number,
): number[] {
  const picked = new Set(always.filter((index) => index >= 0 && index < count));
  for (let n = 0; n < more && count > 0; n++) picked.add(Math.floor(random() * count));
  return [...picked].sort((a, b) => a - b);
}
