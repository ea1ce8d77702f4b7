/** 32-bit hash of a seed and a name, so that each case has its own random stream. */
function hashStream(seed: number, name: string): number {
  let hash = (seed ^ 0x9e3779b9) >>> 0;
  for (let i = 0; i < name.length; i++) {
    hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193);
    hash ^= hash >>> 15;
  }
  return hash >>> 0;
}

/** Seeded random number generator (sfc32). The same seed and name give the same numbers. */
export class Random {
  #a: number;
  #b: number;
  #c: number;
  #counter = 1;
  #spare: number | undefined;

  constructor(seed: number, name: string) {
    this.#a = seed | 0;
    this.#b = hashStream(seed, name) | 0;
    this.#c = hashStream(~seed, name) | 0;
    for (let i = 0; i < 12; i++) this.u32();
  }

  u32(): number {
    const sum = (((this.#a + this.#b) | 0) + this.#counter) | 0;
    this.#counter = (this.#counter + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = (((this.#c << 21) | (this.#c >>> 11)) + sum) | 0;
    return sum >>> 0;
  }

  /** Uniform number in [0, 1). */
  uniform(): number {
    return this.u32() / 2 ** 32;
  }

  /** Uniform integer in [0, count). */
  integerBelow(count: number): number {
    return Math.floor(this.uniform() * count);
  }

  /** Number from the standard normal distribution. */
  normal(): number {
    if (this.#spare !== undefined) {
      const spare = this.#spare;
      this.#spare = undefined;
      return spare;
    }
    const radius = Math.sqrt(-2 * Math.log(1 - this.uniform()));
    const angle = 2 * Math.PI * this.uniform();
    this.#spare = radius * Math.sin(angle);
    return radius * Math.cos(angle);
  }

  normals(count: number, scale = 1): Float32Array<ArrayBuffer> {
    const values = new Float32Array(count);
    for (let i = 0; i < count; i++) values[i] = this.normal() * scale;
    return values;
  }

  words(count: number): Uint32Array<ArrayBuffer> {
    const words = new Uint32Array(count);
    for (let i = 0; i < count; i++) words[i] = this.u32();
    return words;
  }

  /** The integers from 0 to `count` - 1 in random order. */
  permutation(count: number): Uint32Array<ArrayBuffer> {
    const order = Uint32Array.from({ length: count }, (_, index) => index);
    for (let i = count - 1; i > 0; i--) {
      const j = this.integerBelow(i + 1);
      [order[i], order[j]] = [order[j] as number, order[i] as number];
    }
    return order;
  }
}
