import { contracts, type Contract } from '../../../kernels/contracts.ts';
import { gumbel, type SamplingRule, sampleToken } from '../../../kernels/reference/index.ts';
import {
  chooseSamplePick,
  noToken,
  topLogprobsShift,
  sampleFlags,
  samplePick,
  sampleWords,
} from '../../../kernels/sample.ts';
import type { ExpectedOutput, ParityCase } from '../types.ts';
import { eraseStep } from './builtin.ts';
import {
  randomBetween,
  caseName,
  requireFloats,
  type CaseKind,
  requireMember,
  stepDimsFor,
  requireWords,
} from './case-generation.ts';
import { Random } from './random.ts';
import type { CaseOptions, LabOp } from './types.ts';

type Rule = Pick<SamplingRule, 'temperature' | 'topK' | 'topP' | 'minP'>;

interface Shape {
  readonly kind: CaseKind;
  readonly vocabulary: number;
  readonly rules: readonly Partial<Rule>[];
  /** Constant added to all logits of a row; it does not change the result. */
  readonly shift?: number;
  /** Several tokens of each greedy row have the largest logit. */
  readonly ties?: boolean;
  /** Number of tokens that a mask allows in each row. Default: all. */
  readonly allowed?: number;
  /** Logit of the other tokens. Default: the smallest f32. */
  readonly excluded?: number;
  /** The logits of the last row are NaN: no token can be sampled. */
  readonly nan?: true;
  readonly spareRows?: number;
}

const greedy: Partial<Rule> = { temperature: 0 };
const repeatRule = (count: number, rule: Partial<Rule>) => Array.from({ length: count }, () => rule);
const allRules: readonly Partial<Rule>[] = [
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
    { kind: 'random', vocabulary: randomBetween(random, 400, 700), rules: allRules },
    {
      kind: 'ragged',
      vocabulary: randomBetween(random, 33, 97),
      rules: [...allRules, { topK: 1 }, { topP: 0.3 }],
      spareRows: 2,
    },
    {
      kind: 'ragged',
      vocabulary: randomBetween(random, 1, 9),
      rules: [greedy, {}, { topK: 1000 }, { temperature: 0.4 }],
    },
    { kind: 'ragged', vocabulary: 1001, rules: repeatRule(5, greedy), ties: true, spareRows: 1 },
    { kind: 'extreme', vocabulary: 300, rules: [greedy, { topP: 0.8 }, { topK: 9 }], shift: 2e3 },
    { kind: 'extreme', vocabulary: 300, rules: [greedy, { minP: 0.1 }, { temperature: 3 }], shift: -2e3 },
    { kind: 'one_row', vocabulary: 2048, rules: [{ temperature: 0.8, topK: 40, topP: 0.95 }], spareRows: 3 },
    { kind: 'random', vocabulary: 16, rules: repeatRule(130, {}) },
    {
      kind: 'extreme',
      vocabulary: randomBetween(random, 200, 400),
      rules: [greedy, {}, { topP: 0.7 }, { topK: 9, temperature: 2 }, { minP: 0.05, temperature: 0.5 }],
      allowed: 12,
    },
    {
      kind: 'extreme',
      vocabulary: randomBetween(random, 100, 300),
      rules: [greedy, {}, { topP: 0.7 }, { topK: 20, temperature: 2 }, { temperature: 0.7 }, greedy],
      allowed: 9,
      excluded: Number.NEGATIVE_INFINITY,
      nan: true,
    },
    {
      kind: 'ragged',
      vocabulary: 700,
      rules: [{ topK: 200 }, { temperature: 5 }, { topK: 90, temperature: 4 }],
    },
  ];
  if (strict) {
    list.push(
      { kind: 'random', vocabulary: 32_000, rules: allRules },
      { kind: 'ragged', vocabulary: randomBetween(random, 3000, 9000), rules: [...allRules, ...allRules] },
    );
  }
  for (const { dims } of live) {
    const vocabulary = requireMember(dims, 'vocabulary');
    list.push(
      { kind: 'live', vocabulary, rules: [greedy] },
      { kind: 'live', vocabulary, rules: [{ temperature: 0.8, topK: 40, topP: 0.95 }, greedy] },
    );
  }
  return list;
}

/** Logit of a masked token: the smallest f32. */
const maskedLogit = -3.4028234663852886e38;

/** Distance between logits, and between a probability mass and its cutoff, that f32 rounding cannot bridge. */
const minClearGap = 2e-3;

interface SampleSetup {
  readonly logits: Float32Array;
  readonly rule: Rule;
  readonly seed: number;
  readonly position: number;
}

/** Approximate number of logarithms for the search. With a large vocabulary, the first suitable seed is used. */
const maxSearchedTokens = 1e5;

/** Mostly positions of real contexts, short and long. */
const randomPosition = (random: Random): number =>
  random.integerBelow([8, 600, 8192, 1 << 20][random.integerBelow(4)] as number);

/**
 * Generates a row of logits like those of a model, with some likely tokens and a long tail in random order, and a seed
 * for which rounding cannot change the sampled token, because tokens are compared exactly. If the rule excludes
 * tokens, it prefers a seed for which another token would be sampled without the rule.
 */
function generateRow(
  random: Random,
  ruleChange: Partial<Rule>,
  { vocabulary, shift = 0, allowed = vocabulary, excluded = maskedLogit }: Shape,
): SampleSetup {
  const rule: Rule = { temperature: 1, topK: 0, topP: 1, minP: 0, ...ruleChange };
  for (;;) {
    const order = random.permutation(vocabulary);
    const logits = new Float32Array(vocabulary);
    const sorted = new Float64Array(vocabulary);
    let logit = shift + 5 + 3 * random.uniform();
    for (let rank = 0; rank < vocabulary; rank++) {
      logits[order[rank] as number] = rank < allowed ? logit : excluded;
      sorted[rank] = logits[order[rank] as number] as number;
      logit -= (4 * (0.1 + random.uniform())) / (rank + 3);
    }
    const kept = countKeptTokens(rule, sorted);
    if (kept === undefined) continue;
    let chosen: SampleSetup | undefined;
    for (let attempts = Math.min(80, Math.ceil(maxSearchedTokens / vocabulary)); attempts > 0; attempts--) {
      const setup = { logits, rule, seed: random.u32(), position: randomPosition(random) };
      const { isClear, isDecided } = evaluateSetup(setup, order, sorted, kept);
      if (isClear && (isDecided || !chosen)) chosen = setup;
      if (isClear && (isDecided || kept === vocabulary)) break;
    }
    if (chosen) return chosen;
  }
}

/**
 * Number of tokens that the rule keeps; undefined when rounding could change it.
 * @param sorted logits in descending order
 */
function countKeptTokens({ temperature, topK, topP, minP }: Rule, sorted: Float64Array): number | undefined {
  if (temperature === 0) {
    const isClear = sorted.length === 1 || (sorted[0] as number) - (sorted[1] as number) > minClearGap;
    return isClear ? 1 : undefined;
  }
  const scaled = sorted.map((logit) => logit / temperature);
  const top = scaled[0] as number;
  const gapAt = (rank: number) =>
    rank >= scaled.length ? Infinity : (scaled[rank - 1] as number) - (scaled[rank] as number);
  let kept = topK > 0 ? Math.min(topK, scaled.length) : scaled.length;
  if (gapAt(kept) < minClearGap) return undefined;
  if (topP < 1) {
    const masses = scaled.subarray(0, kept).map((logit) => Math.exp(logit - top));
    const targetMass = topP * masses.reduce((sum, mass) => sum + mass, 0);
    let before = 0;
    let rank = 0;
    while (rank + 1 < kept && before + (masses[rank] as number) < targetMass)
      before += masses[rank++] as number;
    const overshoot = before + (masses[rank] as number) - targetMass;
    if (Math.min(overshoot, targetMass - before) < minClearGap * targetMass || gapAt(rank + 1) < minClearGap)
      return undefined;
    kept = rank + 1;
  }
  if (minP > 0) {
    const cutoff = top + Math.log(minP);
    while (kept > 1 && (scaled[kept - 1] as number) < cutoff) kept -= 1;
    const distances = [kept - 1, kept].map((rank) => Math.abs((scaled[rank] ?? Infinity) - cutoff));
    if (Math.min(...distances) < minClearGap) return undefined;
  }
  return kept;
}

/** Whether rounding cannot change the sampled token, and whether the rule does change it. */
function evaluateSetup(
  { rule: { temperature }, seed, position }: SampleSetup,
  order: Uint32Array,
  sorted: Float64Array,
  kept: number,
): { isClear: boolean; isDecided: boolean } {
  if (temperature === 0) return { isClear: true, isDecided: true };
  let [best, second, bestOfAll] = [-Infinity, -Infinity, -Infinity];
  for (let rank = 0; rank < sorted.length; rank++) {
    const perturbedLogit =
      (sorted[rank] as number) / temperature + gumbel(seed, position, order[rank] as number);
    bestOfAll = Math.max(bestOfAll, perturbedLogit);
    if (rank >= kept) continue;
    if (perturbedLogit > best) [best, second] = [perturbedLogit, best];
    else if (perturbedLogit > second) second = perturbedLogit;
  }
  return { isClear: best - second > minClearGap, isDecided: bestOfAll - best > minClearGap };
}

const idleSlots = 2;
const promptMark = 0x80000000;

function makeCase(random: Random, shape: Shape): ParityCase {
  const { kind, vocabulary, rules, ties = false, spareRows = 0, allowed, nan } = shape;
  const tokens = rules.length;
  const slots = random.permutation(tokens + idleSlots);
  const logits = random.normals((tokens + spareRows) * vocabulary, 30);
  const samples = random.words((tokens + spareRows) * sampleWords);
  const floatFields = new Float32Array(samples.buffer);
  for (const [row, ruleChange] of rules.entries()) {
    const setup = generateRow(random, ruleChange, shape);
    if (ties) addTies(random, setup.logits);
    if (nan && row === rules.length - 1) setup.logits.fill(Number.NaN);
    logits.set(setup.logits, row * vocabulary);
    const at = row * sampleWords;
    // With penalties, the kernel counts the sampled token. Other flags concern other dispatches and must be ignored.
    const { bias, penalties: counted, mask, logprobs } = sampleFlags;
    const reportFlags = random.integerBelow(2) * (logprobs + (random.integerBelow(21) << topLogprobsShift));
    const flags =
      random.integerBelow(2) * bias +
      random.integerBelow(2) * counted +
      random.integerBelow(2) * mask +
      reportFlags;
    samples.set([row, slots[row] as number, flags, setup.seed, setup.position, setup.rule.topK], at);
    const { temperature, topP, minP } = setup.rule;
    const penalties = [1 + random.uniform(), random.uniform(), random.uniform()];
    floatFields.set([temperature, topP, minP, ...penalties], at + 6);
  }
  const seen = new Uint32Array(slots.length * vocabulary);
  for (let i = 0; i < seen.length; i++) {
    const bits = random.u32();
    if (bits < 1 << 29) seen[i] = (bits & 1 ? promptMark : 0) + ((bits >>> 1) & 7);
  }
  const dims = { tokens, vocabulary };
  return {
    name: `${caseName(kind, dims, ['tokens', 'vocabulary'])}${ties ? ' ties' : ''}${allowed === undefined ? '' : ' masked'}${nan ? ' nan' : ''}`,
    dims,
    tensors: { samples, logits, seen, sampled: random.words(slots.length) },
    params: { vocabulary },
  };
}

/** Copies the largest logit to some other tokens. */
function addTies(random: Random, logits: Float32Array): void {
  const greatest = logits.reduce((a, b) => Math.max(a, b));
  for (let i = randomBetween(random, 1, 4); i > 0; i--) logits[random.integerBelow(logits.length)] = greatest;
}

function oracle({ tensors, params, dims }: ParityCase): Readonly<Record<string, ExpectedOutput>> {
  const samples = requireWords(tensors, 'samples');
  const floatFields = new Float32Array(samples.buffer, samples.byteOffset, samples.length);
  const logits = requireFloats(tensors, 'logits');
  const vocabulary = requireMember(params, 'vocabulary');
  const seen = Float64Array.from(requireWords(tensors, 'seen'));
  const sampled = Float64Array.from(requireWords(tensors, 'sampled'));
  const results = new Float64Array(samples.length / sampleWords);
  const preserved = {
    seen: new Uint8Array(seen.length).fill(1),
    sampled: new Uint8Array(sampled.length).fill(1),
    results: new Uint8Array(results.length).fill(1),
  };
  for (let row = 0; row < requireMember(dims, 'tokens'); row++) {
    const [, slot = 0, flags = 0, seed = 0, position = 0, topK = 0] = samples.subarray(row * sampleWords);
    const [temperature = 0, topP = 1, minP = 0] = floatFields.subarray(row * sampleWords + 6);
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
    const rowLogits = logits.subarray(row * vocabulary, (row + 1) * vocabulary);
    const isNaN = rowLogits.every(Number.isNaN);
    const token = isNaN
      ? noToken
      : sampleToken(rowLogits, rule, { prompt: [], answer: [] }, { seed, position });
    results[row] = token;
    sampled[slot] = token;
    preserved.results[row] = 0;
    preserved.sampled[slot] = 0;
    if (isNaN || (flags & sampleFlags.penalties) === 0) continue;
    const at = slot * vocabulary + token;
    seen[at] = (seen[at] as number) + 1;
    preserved.seen[at] = 0;
  }
  return {
    seen: { values: seen, preserved: preserved.seen },
    sampled: { values: sampled, preserved: preserved.sampled },
    results: { values: results, preserved: preserved.results },
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
    eraseStep(samplePick, {
      variant: chooseSamplePick(caps),
      params: { vocabulary: requireMember(params, 'vocabulary'), rules: 2, levels: 4 },
      bindings: {
        samples: { tensor: 'samples' },
        logits: { tensor: 'logits' },
        seen: { tensor: 'seen' },
        sampled: { tensor: 'sampled' },
        results: { tensor: 'results' },
      },
      dims: stepDimsFor(requireMember(dims, 'tokens')),
    }),
  ],
};
