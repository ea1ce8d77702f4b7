/**
 * Rows of logits for `sample` whose noise is chosen: a token that must not be sampled has the largest noise there is, or all tokens are
 * nearly equal with their noise. With random seeds, a kernel that samples masked tokens, or whose distribution has another tail, would
 * be seen once in millions of rows.
 */
import { gumbel } from '../../../kernels/reference/index.ts';
import type { Random } from './random.ts';

/**
 * - `deep`: an unlikely token wins or loses by little.
 * - `rare`, `rarer`: the least likely token that can be sampled wins by little, or one that is a little less likely loses: a
 *   probability that is raised or cut off shows.
 * - `masked`, `topK`, `topP`, `minP`: the largest noise is that of a token which the mask or the filter excludes.
 * - `tied`: every token loses by little, so that its noise counts.
 */
export type Draw = 'deep' | 'rare' | 'rarer' | 'masked' | 'topK' | 'topP' | 'minP' | 'tied';

export interface DrawnRow {
  readonly logits: Float32Array;
  readonly rule: {
    readonly temperature: number;
    readonly topK: number;
    readonly topP: number;
    readonly minP: number;
  };
  readonly seed: number;
  readonly position: number;
  /** The token that is sampled. */
  readonly token: number;
}

/** The inverses of the factors of the hash, modulo 2^32. */
const [inverseFirst, inverseSecond] = [inverseOf(0x7feb352d), inverseOf(0x846ca68b)];

function inverseOf(factor: number): number {
  let inverse = factor;
  for (let turn = 0; turn < 5; turn++) inverse = Math.imul(inverse, 2 - Math.imul(factor, inverse));
  return inverse;
}

/** Inverse of the sampler's hash. */
function unmix(hash: number): number {
  let v = hash ^ (hash >>> 16);
  v = Math.imul(v, inverseSecond);
  v ^= (v >>> 15) ^ (v >>> 30);
  v = Math.imul(v, inverseFirst);
  return (v ^ (v >>> 16)) >>> 0;
}

/** The seed for which a token has these 32 random bits at a position. */
export const seedFor = (bits: number, position: number, token: number): number =>
  (unmix(unmix(bits) ^ Math.imul(token, 0x85ebca6b)) ^ Math.imul(position, 0x9e3779b9)) >>> 0;

/** Random bits of which the upper 23 make about this noise. */
const bitsOf = (random: Random, noise: number): number =>
  ((Math.floor(-Math.expm1(-Math.exp(-noise)) * 2 ** 23) << 9) | random.integerBelow(512)) >>> 0;

/** Noise is below this. */
const maxNoise = 16.6;
/** Distances between noisy logits that f32 rounding cannot bridge. */
const [minMargin, maxMargin] = [0.006, 0.06];
const maskedLogits = [-3.4028234663852886e38, Number.NEGATIVE_INFINITY] as const;
/** Draws of which that with the least noise of the most likely token is taken: 512 seeds have the largest noise. */
const maxDraws = 400;
/** Tokens that a filter keeps. */
const keptTokens = 4;

export function drawnRow(random: Random, draw: Draw, vocabulary: number): DrawnRow {
  const temperature = [0.3, 0.7, 1, 1.6][random.integerBelow(4)] as number;
  const rule = { temperature, topK: 0, topP: 1, minP: 0 };
  const margin = () => minMargin + (maxMargin - minMargin) * random.uniform();
  const position = random.integerBelow([600, 8192, 1 << 20][random.integerBelow(3)] as number);
  const order = random.permutation(vocabulary);
  const [top = 0, other = 0] = order;
  const shift = 4 * random.uniform();
  const logits = new Float32Array(vocabulary);
  /** @param below by how much a token is less likely than the most likely one, in units of the temperature */
  const set = (token: number, below: number) => {
    logits[token] = (shift - below) * temperature;
  };
  if (draw === 'tied') {
    const seed = random.u32();
    for (let v = 0; v < vocabulary; v++)
      set(v, gumbel(seed, position, v) + (v === top ? 0 : margin() * (random.integerBelow(2) ? 1 : 8)));
    return { logits, rule, seed, position, token: top };
  }
  /** A seed with which the other token has this noise. */
  const seedWith = (noise: number) => seedFor(bitsOf(random, noise), position, other);
  /** A seed with which the other token has the largest noise, and the most likely one little. */
  const seedOfRare = (): number => {
    let [seed, least] = [0, Number.POSITIVE_INFINITY];
    for (let turn = 0; turn < maxDraws; turn++) {
      const tried = seedWith(maxNoise + 1);
      const noise = gumbel(tried, position, top);
      if (noise < least) [seed, least] = [tried, noise];
    }
    return seed;
  };
  if (draw === 'deep' || draw === 'rare' || draw === 'rarer') {
    const seed = draw === 'deep' ? seedWith(1 + (maxNoise - 1) * random.uniform()) : seedOfRare();
    const isSampled = draw === 'rare' || (draw === 'deep' && random.integerBelow(2) === 1);
    const lead = gumbel(seed, position, other) - gumbel(seed, position, top);
    const below = lead + (isSampled ? -margin() : margin());
    // The more likely one of both is at 0, which may be the other one.
    for (const token of order) set(token, Math.max(below, 0) + 40);
    set(top, Math.max(0, -below));
    set(other, Math.max(0, below));
    return { logits, rule, seed, position, token: isSampled ? other : top };
  }
  if (draw === 'masked') {
    const seed = seedOfRare();
    logits.fill(maskedLogits[random.integerBelow(2)] as number);
    set(top, 0);
    return { logits, rule, seed, position, token: top };
  }
  const kept = draw === 'topP' ? 1 : keptTokens;
  const excluded = { topK: 0.5, topP: 3, minP: 4 }[draw];
  for (;;) {
    const seed = seedWith(10 + (maxNoise - 10) * random.uniform());
    const candidates = order.filter((token) => token !== other).slice(0, kept);
    for (const token of order) set(token, 25);
    for (const [rank, token] of candidates.entries()) set(token, 0.1 * rank);
    set(other, excluded);
    const noisy = Array.from(candidates, (token, rank) => gumbel(seed, position, token) - 0.1 * rank);
    const best = noisy.indexOf(Math.max(...noisy));
    const second = Math.max(...noisy.filter((_, rank) => rank !== best));
    if ((noisy[best] as number) - second < minMargin) continue;
    const filter = { topK: { topK: kept }, topP: { topP: 0.5 }, minP: { minP: 0.05 } }[draw];
    return { logits, rule: { ...rule, ...filter }, seed, position, token: candidates[best] as number };
  }
}
