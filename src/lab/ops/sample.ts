import { contracts, type Contract } from '../../../kernels/contracts.ts';
import { gumbel, type SamplingRule, sampleToken } from '../../../kernels/reference/index.ts';
import {
  chooseSamplePick,
  likeliestShift,
  sampleFlags,
  samplePick,
  sampleWords,
} from '../../../kernels/sample.ts';
import type { ExpectedOutput, ParityCase } from '../types.ts';
import { erasedStep } from './builtin.ts';
import { between, caseName, floats, type Kind, member, stepOf, words } from './draws.ts';
import { Random } from './random.ts';
import type { CaseOptions, LabOp } from './types.ts';

type Rule = Pick<SamplingRule, 'temperature' | 'topK' | 'topP' | 'minP'>;

interface Shape {
  readonly kind: Kind;
  readonly vocabulary: number;
  readonly rules: readonly Partial<Rule>[];
  /** Constant added to all logits of a row; it does not change the result. */
  readonly shift?: number;
  /** Several tokens of each greedy row have the largest logit. */
  readonly ties?: boolean;
  /** Number of tokens that a mask allows in each row. Default: all. */
  readonly allowed?: number;
  readonly spare?: number;
}

const greedy: Partial<Rule> = { temperature: 0 };
const many = (count: number, rule: Partial<Rule>) => Array.from({ length: count }, () => rule);
const everyRule: readonly Partial<Rule>[] = [
  greedy,
  {},
  { temperature: 1.7 },
  { topK: 20 },
  { topP: 0.9 },
  { minP: 0.05 },
  { temperature: 0.7, topK: 30, topP: 0.95, minP: 0.02 },
];

function shapes(random: Random, { strict, live = [] }: CaseOptions): Shape[] {
  const list: Shape[] = [
    { kind: 'random', vocabulary: between(random, 400, 700), rules: everyRule },
    {
      kind: 'ragged',
      vocabulary: between(random, 33, 97),
      rules: [...everyRule, { topK: 1 }, { topP: 0.3 }],
      spare: 2,
    },
    {
      kind: 'ragged',
      vocabulary: between(random, 1, 9),
      rules: [greedy, {}, { topK: 1000 }, { temperature: 0.4 }],
    },
    { kind: 'ragged', vocabulary: 1001, rules: many(5, greedy), ties: true, spare: 1 },
    { kind: 'extreme', vocabulary: 300, rules: [greedy, { topP: 0.8 }, { topK: 9 }], shift: 2e3 },
    { kind: 'extreme', vocabulary: 300, rules: [greedy, { minP: 0.1 }, { temperature: 3 }], shift: -2e3 },
    { kind: 'one_row', vocabulary: 2048, rules: [{ temperature: 0.8, topK: 40, topP: 0.95 }], spare: 3 },
    { kind: 'random', vocabulary: 16, rules: many(130, {}) },
    {
      kind: 'extreme',
      vocabulary: between(random, 200, 400),
      rules: [greedy, {}, { topP: 0.7 }, { topK: 9, temperature: 2 }, { minP: 0.05, temperature: 0.5 }],
      allowed: 12,
    },
    {
      kind: 'ragged',
      vocabulary: 700,
      rules: [{ topK: 200 }, { temperature: 5 }, { topK: 90, temperature: 4 }],
    },
  ];
  if (strict) {
    list.push(
      { kind: 'random', vocabulary: 32_000, rules: everyRule },
      { kind: 'ragged', vocabulary: between(random, 3000, 9000), rules: [...everyRule, ...everyRule] },
    );
  }
  for (const { dims } of live) {
    const vocabulary = member(dims, 'vocabulary');
    list.push(
      { kind: 'live', vocabulary, rules: [greedy] },
      { kind: 'live', vocabulary, rules: [{ temperature: 0.8, topK: 40, topP: 0.95 }, greedy] },
    );
  }
  return list;
}

/** Logit of a masked token: the smallest f32. */
const forbidden = -3.4028234663852886e38;

/** Distance between logits, and between a probability mass and its cutoff, that f32 rounding cannot bridge. */
const clearGap = 2e-3;

interface Draw {
  readonly logits: Float32Array;
  readonly rule: Rule;
  readonly seed: number;
  readonly position: number;
}

/** Approximate number of logarithms for the search. With a large vocabulary, the first suitable seed is used. */
const searchedTokens = 1e5;

/**
 * Generates a row of logits like those of a model, with some likely tokens and a long tail in random order, and a seed
 * for which rounding cannot change the sampled token, because tokens are compared exactly. If the rule excludes
 * tokens, it prefers a seed for which another token would be sampled without the rule.
 */
function drawRow(
  random: Random,
  change: Partial<Rule>,
  { vocabulary, shift = 0, allowed = vocabulary }: Shape,
): Draw {
  const rule: Rule = { temperature: 1, topK: 0, topP: 1, minP: 0, ...change };
  for (;;) {
    const order = random.permutation(vocabulary);
    const logits = new Float32Array(vocabulary);
    const sorted = new Float64Array(vocabulary);
    let logit = shift + 5 + 3 * random.uniform();
    for (let rank = 0; rank < vocabulary; rank++) {
      logits[order[rank] as number] = rank < allowed ? logit : forbidden;
      sorted[rank] = logits[order[rank] as number] as number;
      logit -= (4 * (0.1 + random.uniform())) / (rank + 3);
    }
    const kept = keptTokens(rule, sorted);
    if (kept === undefined) continue;
    let found: Draw | undefined;
    for (let tries = Math.min(80, Math.ceil(searchedTokens / vocabulary)); tries > 0; tries--) {
      const draw = { logits, rule, seed: random.u32(), position: random.below(1 << 20) };
      const { isClear, isDecided } = outcome(draw, order, sorted, kept);
      if (isClear && (isDecided || !found)) found = draw;
      if (isClear && (isDecided || kept === vocabulary)) break;
    }
    if (found) return found;
  }
}

/**
 * Number of tokens that the rule keeps; undefined when rounding could change it.
 * @param sorted logits in descending order
 */
function keptTokens({ temperature, topK, topP, minP }: Rule, sorted: Float64Array): number | undefined {
  if (temperature === 0) {
    const isClear = sorted.length === 1 || (sorted[0] as number) - (sorted[1] as number) > clearGap;
    return isClear ? 1 : undefined;
  }
  const scaled = sorted.map((logit) => logit / temperature);
  const top = scaled[0] as number;
  const gapAt = (rank: number) =>
    rank >= scaled.length ? Infinity : (scaled[rank - 1] as number) - (scaled[rank] as number);
  let kept = topK > 0 ? Math.min(topK, scaled.length) : scaled.length;
  if (gapAt(kept) < clearGap) return undefined;
  if (topP < 1) {
    const masses = scaled.subarray(0, kept).map((logit) => Math.exp(logit - top));
    const wanted = topP * masses.reduce((sum, mass) => sum + mass, 0);
    let before = 0;
    let rank = 0;
    while (rank + 1 < kept && before + (masses[rank] as number) < wanted) before += masses[rank++] as number;
    const over = before + (masses[rank] as number) - wanted;
    if (Math.min(over, wanted - before) < clearGap * wanted || gapAt(rank + 1) < clearGap) return undefined;
    kept = rank + 1;
  }
  if (minP > 0) {
    const least = top + Math.log(minP);
    while (kept > 1 && (scaled[kept - 1] as number) < least) kept -= 1;
    const around = [kept - 1, kept].map((rank) => Math.abs((scaled[rank] ?? Infinity) - least));
    if (Math.min(...around) < clearGap) return undefined;
  }
  return kept;
}

/** Whether rounding cannot change the sampled token, and whether the rule does change it. */
function outcome(
  { rule: { temperature }, seed, position }: Draw,
  order: Uint32Array,
  sorted: Float64Array,
  kept: number,
): { isClear: boolean; isDecided: boolean } {
  if (temperature === 0) return { isClear: true, isDecided: true };
  let [best, second, bestOfAll] = [-Infinity, -Infinity, -Infinity];
  for (let rank = 0; rank < sorted.length; rank++) {
    const noisy = (sorted[rank] as number) / temperature + gumbel(seed, position, order[rank] as number);
    bestOfAll = Math.max(bestOfAll, noisy);
    if (rank >= kept) continue;
    if (noisy > best) [best, second] = [noisy, best];
    else if (noisy > second) second = noisy;
  }
  return { isClear: best - second > clearGap, isDecided: bestOfAll - best > clearGap };
}

const idleSlots = 2;
const mark = 0x80000000;

function makeCase(random: Random, shape: Shape): ParityCase {
  const { kind, vocabulary, rules, ties = false, spare = 0, allowed } = shape;
  const tokens = rules.length;
  const slots = random.permutation(tokens + idleSlots);
  const logits = random.normals((tokens + spare) * vocabulary, 30);
  const samples = random.words((tokens + spare) * sampleWords);
  const numbers = new Float32Array(samples.buffer);
  for (const [row, change] of rules.entries()) {
    const draw = drawRow(random, change, shape);
    if (ties) addTies(random, draw.logits);
    logits.set(draw.logits, row * vocabulary);
    const at = row * sampleWords;
    // With penalties, the kernel counts the sampled token. Other flags concern other dispatches and must be ignored.
    const { bias, penalties: counted, mask, logprobs } = sampleFlags;
    const reported = random.below(2) * (logprobs + (random.below(21) << likeliestShift));
    const flags = random.below(2) * bias + random.below(2) * counted + random.below(2) * mask + reported;
    samples.set([row, slots[row] as number, flags, draw.seed, draw.position, draw.rule.topK], at);
    const { temperature, topP, minP } = draw.rule;
    const penalties = [1 + random.uniform(), random.uniform(), random.uniform()];
    numbers.set([temperature, topP, minP, ...penalties], at + 6);
  }
  const seen = new Uint32Array(slots.length * vocabulary);
  for (let i = 0; i < seen.length; i++) {
    const bits = random.u32();
    if (bits < 1 << 29) seen[i] = (bits & 1 ? mark : 0) + ((bits >>> 1) & 7);
  }
  const dims = { tokens, vocabulary };
  return {
    name: `${caseName(kind, dims, ['tokens', 'vocabulary'])}${ties ? ' ties' : ''}${allowed === undefined ? '' : ' masked'}`,
    dims,
    tensors: { samples, logits, seen, sampled: random.words(slots.length) },
    params: { vocabulary },
  };
}

/** Copies the largest logit to some other tokens. */
function addTies(random: Random, logits: Float32Array): void {
  const greatest = logits.reduce((a, b) => Math.max(a, b));
  for (let i = between(random, 1, 4); i > 0; i--) logits[random.below(logits.length)] = greatest;
}

function oracle({ tensors, params, dims }: ParityCase): Readonly<Record<string, ExpectedOutput>> {
  const samples = words(tensors, 'samples');
  const numbers = new Float32Array(samples.buffer, samples.byteOffset, samples.length);
  const logits = floats(tensors, 'logits');
  const vocabulary = member(params, 'vocabulary');
  const seen = Float64Array.from(words(tensors, 'seen'));
  const sampled = Float64Array.from(words(tensors, 'sampled'));
  const results = new Float64Array(samples.length / sampleWords);
  const kept = {
    seen: new Uint8Array(seen.length).fill(1),
    sampled: new Uint8Array(sampled.length).fill(1),
    results: new Uint8Array(results.length).fill(1),
  };
  for (let row = 0; row < member(dims, 'tokens'); row++) {
    const [, slot = 0, flags = 0, seed = 0, position = 0, topK = 0] = samples.subarray(row * sampleWords);
    const [temperature = 0, topP = 1, minP = 0] = numbers.subarray(row * sampleWords + 6);
    const rule = {
      temperature,
      topK,
      topP,
      minP,
      repetitionPenalty: 1,
      presencePenalty: 0,
      frequencyPenalty: 0,
      logitBias: new Map<number, number>(),
    };
    const own = logits.subarray(row * vocabulary, (row + 1) * vocabulary);
    const token = sampleToken(own, rule, { prompt: [], answer: [] }, { seed, position });
    results[row] = token;
    sampled[slot] = token;
    kept.results[row] = 0;
    kept.sampled[slot] = 0;
    if ((flags & sampleFlags.penalties) === 0) continue;
    const at = slot * vocabulary + token;
    seen[at] = (seen[at] as number) + 1;
    kept.seen[at] = 0;
  }
  return {
    seen: { values: seen, kept: kept.seen },
    sampled: { values: sampled, kept: kept.sampled },
    results: { values: results, kept: kept.results },
  };
}

export const sample: LabOp = {
  contract: contracts.get('sample') as Contract,
  cases(options) {
    const random = new Random(options.seed, 'sample');
    return shapes(random, options).map((shape) => makeCase(random, shape));
  },
  oracle,
  builtin: ({ params, dims }, caps) => [
    erasedStep(samplePick, {
      variant: chooseSamplePick(caps),
      params: { vocabulary: member(params, 'vocabulary'), rules: 2, levels: 4 },
      bindings: {
        samples: { tensor: 'samples' },
        logits: { tensor: 'logits' },
        seen: { tensor: 'seen' },
        sampled: { tensor: 'sampled' },
        results: { tensor: 'results' },
      },
      dims: stepOf(member(dims, 'tokens')),
    }),
  ],
};
