/** Seeded generator of random 32-bit words (xorshift32). */
export function randomWords(seed: number): (count: number) => Uint32Array {
  let state = seed | 1;
  return (count) => {
    const words = new Uint32Array(count);
    for (let index = 0; index < count; index++) {
      state ^= state << 13;
      state ^= state >>> 17;
      state ^= state << 5;
      words[index] = state;
    }
    return words;
  };
}

/**
 * Scale for random 4-bit weights (-8..7, standard deviation 4.6) at which a product keeps the magnitude of its input.
 */
export const nibbleScale = (columns: number): number => 0.2 / Math.sqrt(columns);
