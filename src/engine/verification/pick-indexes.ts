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
