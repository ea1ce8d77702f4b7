/** Words of random bits, the same ones for the same seed: xorshift of 32 bits. */
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

/** The scale at which 4-bit weights of -8..7, whose deviation is 4.6, keep values about as large as they come. */
export const nibbleScale = (columns: number): number => 0.2 / Math.sqrt(columns);
