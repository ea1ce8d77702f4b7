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
import { type Draw, drawnRow } from './sample-draws.ts';
import type { CaseOptions, LabOp } from './types.ts';

type Rule = Pick<SamplingRule, 'temperature' | 'topK' | 'topP' | 'minP'>;

/** What a row of a shape requires. Other members of the rule have no effect. */
interface RowSetup extends Partial<Rule> {
  /** A row whose noise is chosen; it has a rule of its own. */
  readonly draw?: Draw;
  /** Without this filter, the other ones would keep a token that would be sampled instead. */
  readonly decides?: 'topK' | 'topP' | 'minP';
  /** With these settings, another token would be sampled. */
  readonly unlike?: Partial<Rule>;
  /** The second logit is a few units in the last place below the first, which alone is kept, and its token 2^near away. */
  readonly near?: number;
  /** A seed with which another token than the most likely one is sampled. Default: random. */
  readonly seed?: number;
  readonly position?: number;
  /** Rows of one sequence have the same number: the rows that verify drafts. Default: a sequence of its own. */
  readonly sequence?: number;
}

interface Shape {
  readonly kind: CaseKind;
  readonly vocabulary: number;
  readonly rules: readonly RowSetup[];
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
  /** All logits but the first `narrowKept` are within this range. Default: a few likely tokens and a long tail. */
  readonly range?: number;
  /** The most likely token is one of the last. */
  readonly lastToken?: true;
  /** The largest logits of each greedy row are zeros of both signs. */
  readonly zeros?: true;
}

const greedy: RowSetup = { temperature: 0 };
const repeatRule = (count: number, rule: RowSetup) => Array.from({ length: count }, () => rule);
const allRules: readonly RowSetup[] = [
  greedy,
  {},
  { temperature: 1.7 },
  { topK: 20 },
  { topP: 0.9 },
  { minP: 0.05 },
  { temperature: 0.7, topK: 30, topP: 0.95, minP: 0.02 },
];

/** All three filters, of which one decides; each in turn. */
const decidedRules = (random: Random): RowSetup[] => {
  const temperature = 0.7 + 0.3 * random.uniform();
  return [
    { temperature, topK: 40, topP: 0.95, minP: 0.05 + 0.15 * random.uniform(), decides: 'minP' },
    {
      temperature,
      topK: 40 + random.integerBelow(30),
      topP: 0.4 + 0.3 * random.uniform(),
      minP: 0.01,
      decides: 'topP',
    },
    { temperature, topK: randomBetween(random, 3, 5), topP: 0.85, minP: 0.01, decides: 'topK' },
  ];
};

/** Settings near the ends of their ranges, each beside a less extreme one that would sample another token. */
const extremeRules = (random: Random): RowSetup[] => {
  const temperature = 0.01 + 0.05 * random.uniform();
  const topP = 0.02 + 0.03 * random.uniform();
  const minP = 0.6 + 0.3 * random.uniform();
  const topK = randomBetween(random, 280, 330);
  return [
    { temperature, unlike: { temperature: 2 * temperature } },
    { temperature: 4, topP, unlike: { topP: 2 * topP } },
    { temperature: 3, minP, unlike: { minP: 0.8 * minP } },
    { temperature: 1.5, minP: minP / 100, unlike: { minP: minP / 50 } },
    { temperature: 0.5, topP: 1 - topP, unlike: { topP: 0.94 } },
    { temperature: 2.4, topK, unlike: { topK: 256 } },
    { temperature: 6 + 20 * random.uniform(), topK: 40, unlike: { temperature: 5 } },
  ];
};

/**
 * A combination of filters. Where many tokens share little mass, rounding could change which of them top-p keeps.
 * @param filters a bit each for top-k, top-p and min-p; default: random
 */
function randomRule(random: Random, filters = random.integerBelow(8)): RowSetup {
  const temperature = [0.3, 0.7, 1, 1.3, 2][random.integerBelow(5)] as number;
  const maxTopP = temperature > 1 ? 0.6 : 0.85;
  return {
    temperature,
    ...(filters & 1 ? { topK: randomBetween(random, 2, 60) } : {}),
    ...(filters & 2 ? { topP: 0.3 + (maxTopP - 0.3) * random.uniform() } : {}),
    ...(filters & 4 ? { minP: 0.005 + 0.2 * random.uniform() } : {}),
  };
}

/** Seeds at the ends of their range, among them twice the same, and three rows of one random seed. */
function seededRules(random: Random): RowSetup[] {
  const shared = random.u32();
  const seeds = [0, 0, 1, 2 + random.integerBelow(254), 256 + random.integerBelow(65_000), 0x80000000];
  return [...seeds, 0xffffffff, shared, shared, shared].map((seed, index) => ({
    temperature: 0.8 + random.uniform(),
    ...(index % 2 === 0 ? {} : { topK: randomBetween(random, 10, 60) }),
    seed,
  }));
}

/** Rows of several sequences, some of which verify drafts: each of their tokens is sampled from logits of its own. */
function verifiedRules(random: Random): RowSetup[] {
  const sequences = [greedy, { temperature: 1 }, { ...randomRule(random), topK: 30 }, greedy];
  return sequences.flatMap((rule, sequence) => {
    const [seed, first] = [random.u32(), randomPosition(random)];
    const rows = sequence === 3 ? 1 : randomBetween(random, 2, 4);
    return Array.from({ length: rows }, (_, n) => ({ ...rule, seed, position: first + n, sequence }));
  });
}

/** Rows whose noise is chosen. */
const drawnRules: readonly RowSetup[] = (
  [
    ['deep', 12],
    ['rare', 3],
    ['rarer', 3],
    ['masked', 4],
    ['topK', 2],
    ['topP', 2],
    ['minP', 2],
    ['tied', 4],
  ] as const
).flatMap(([draw, count]) => repeatRule(count, { draw }));

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
    { kind: 'ragged', vocabulary: 700, rules: repeatRule(2, greedy), zeros: true },
    {
      kind: 'extreme',
      vocabulary: randomBetween(random, 9000, 9400),
      rules: [11, 12, 13]
        .map((near) => ({ topK: 1, near }))
        .concat({ ...greedy, topK: 0, near: 5 + random.integerBelow(6) }),
    },
    // Tokens that need more than 16 bits, and more likely ones than small counters hold.
    {
      kind: 'extreme',
      vocabulary: randomBetween(random, 70_000, 80_000),
      rules: [greedy, { topK: narrowKept }],
      range: 2,
      lastToken: true,
    },
    { kind: 'extreme', vocabulary: 300, rules: [greedy, { topP: 0.8 }, { topK: 9 }], shift: 2e3 },
    { kind: 'extreme', vocabulary: 300, rules: [greedy, { minP: 0.1 }, { temperature: 3 }], shift: -2e3 },
    { kind: 'one_row', vocabulary: 2048, rules: [{ temperature: 0.8, topK: 40, topP: 0.95 }], spareRows: 3 },
    { kind: 'random', vocabulary: 16, rules: repeatRule(130, {}) },
    {
      kind: 'random',
      vocabulary: randomBetween(random, 90, 200),
      // Every combination of filters.
      rules: [
        ...decidedRules(random),
        ...Array.from({ length: 8 }, (_, filters) => randomRule(random, filters)),
      ],
    },
    { kind: 'extreme', vocabulary: randomBetween(random, 400, 700), rules: extremeRules(random) },
    { kind: 'random', vocabulary: randomBetween(random, 60, 120), rules: seededRules(random) },
    { kind: 'random', vocabulary: randomBetween(random, 90, 200), rules: drawnRules },
    {
      kind: 'ragged',
      vocabulary: randomBetween(random, 60, 120),
      rules: verifiedRules(random),
      spareRows: 1,
    },
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
      { kind: 'live', vocabulary, rules: [decidedRules(random)[0] ?? {}, { draw: 'tied' }] },
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
  /** The token that is sampled. */
  readonly token: number;
}

/** Approximate number of logarithms for the search. With a large vocabulary, the first suitable seed is used. */
const maxSearchedTokens = 1e5;

/** Mostly positions of real contexts, short and long. */
const randomPosition = (random: Random): number =>
  random.integerBelow([8, 600, 8192, 1 << 20][random.integerBelow(4)] as number);

/** Tokens that top-k keeps of a row with logits in a narrow range: only their logits are clearly apart. */
const narrowKept = 40;

/** Rows of logits that are tried for a row that requires more than a clear result. */
const maxTries = 60;

/** A rule without one of its filters. */
const neutralFilters = { topK: { topK: 0 }, topP: { topP: 1 }, minP: { minP: 0 } } as const;

/**
 * Generates a row of logits like those of a model, with some likely tokens and a long tail in random order, and a seed
 * for which rounding cannot change the sampled token, because tokens are compared exactly. If the rule excludes
 * tokens, it prefers a seed for which another token would be sampled without the rule.
 */
function generateRow(
  random: Random,
  {
    draw: drawn,
    decides,
    unlike,
    near,
    seed,
    position,
    temperature = 1,
    topK = 0,
    topP = 1,
    minP = 0,
  }: RowSetup,
  { vocabulary, shift = 0, allowed = vocabulary, excluded = maskedLogit, range, lastToken }: Shape,
): SampleSetup {
  if (drawn) return drawnRow(random, drawn, vocabulary);
  const rule: Rule = { temperature, topK, topP, minP };
  for (let tries = 0; ; tries++) {
    const order = random.permutation(vocabulary);
    if (lastToken) {
      const last = vocabulary - 1 - random.integerBelow(1000);
      const rank = order.indexOf(last);
      [order[0], order[rank]] = [last, order[0] as number];
    }
    const logits = new Float32Array(vocabulary);
    const sorted = new Float64Array(vocabulary);
    let logit = shift + 5 + 3 * random.uniform();
    for (let rank = 0; rank < vocabulary; rank++) {
      logits[order[rank] as number] = rank < allowed ? logit : excluded;
      sorted[rank] = logits[order[rank] as number] as number;
      const step =
        rank < narrowKept
          ? 0.01 * (1 + random.uniform())
          : ((range ?? 0) / vocabulary) * 2 * random.uniform();
      logit -= range === undefined ? (4 * (0.1 + random.uniform())) / (rank + 3) : step;
    }
    if (near !== undefined) bringNear(logits, order, sorted, 2 ** near);
    const kept = near !== undefined ? 1 : countKeptTokens(rule, sorted);
    if (kept === undefined) continue;
    // The second token of a near pair would be sampled if it was kept.
    const others =
      near !== undefined
        ? 2
        : decides
          ? countKeptTokens({ ...rule, ...neutralFilters[decides] }, sorted)
          : rule.temperature === 0 || unlike
            ? kept
            : vocabulary;
    const isRequired =
      (decides !== undefined || unlike !== undefined || seed !== undefined || near !== undefined) &&
      tries < maxTries;
    const unlikeRule = unlike && { ...rule, ...unlike };
    const keptUnlike = unlikeRule && countKeptTokens(unlikeRule, sorted);
    if (isRequired && unlike && keptUnlike === undefined) continue;
    const isUnlike = (draw: Pick<SampleSetup, 'seed' | 'position'>, rank: number) => {
      if (!unlikeRule) return true;
      const among = { kept: keptUnlike ?? vocabulary, others: keptUnlike ?? vocabulary };
      return evaluateDraw({ rule: unlikeRule, ...draw }, { order, sorted, ...among }).rank !== rank;
    };
    if (isRequired && (others === undefined || (decides && others === kept))) continue;
    // A row with a given seed and position has to be sampled from other logits, if its result is not clear.
    const maxAttempts =
      position === undefined ? Math.min(80, Math.ceil(maxSearchedTokens / (others ?? kept))) : 1;
    let chosen: SampleSetup | undefined;
    for (let attempts = maxAttempts; attempts > 0; attempts--) {
      const draw = { seed: seed ?? random.u32(), position: position ?? randomPosition(random) };
      const result = evaluateDraw({ rule, ...draw }, { order, sorted, kept, others: others ?? kept });
      const isWanted =
        (unlike ? isUnlike(draw, result.rank) : result.isDecided) &&
        (seed === undefined || position !== undefined || result.rank > 0);
      if (!result.isClear || (!isWanted && (chosen || (isRequired && position === undefined)))) continue;
      chosen = { logits, rule, ...draw, token: order[result.rank] as number };
      if (isWanted || (kept === vocabulary && seed === undefined && !unlike)) break;
    }
    if (chosen) return chosen;
  }
}

/** Moves the second most likely token near the first, in its logit and in its index. */
function bringNear(logits: Float32Array, order: Uint32Array, sorted: Float64Array, distance: number): void {
  const [first = 0, second = 0] = order;
  const place = first + distance < logits.length ? first + distance : Math.max(0, first - distance);
  const rank = order.indexOf(place);
  [order[1], order[rank]] = [place, second];
  logits[second] = logits[place] as number;
  const bits = new Uint32Array(Float32Array.of(logits[first] as number).buffer);
  // Three units in the last place less: the logit is positive.
  bits[0] = (bits[0] as number) - 3;
  const [below = 0] = new Float32Array(bits.buffer);
  logits[place] = below;
  sorted[1] = below;
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

/**
 * The rank of the sampled token, whether rounding cannot change it, and whether another one would be sampled of the first
 * `others` tokens.
 */
function evaluateDraw(
  { rule: { temperature }, seed, position }: { rule: Rule; seed: number; position: number },
  { order, sorted, kept, others }: { order: Uint32Array; sorted: Float64Array; kept: number; others: number },
): { rank: number; isClear: boolean; isDecided: boolean } {
  if (temperature === 0) return { rank: 0, isClear: true, isDecided: true };
  let [best, second, bestOfOthers, bestRank] = [-Infinity, -Infinity, -Infinity, 0];
  for (let rank = 0; rank < others; rank++) {
    const perturbedLogit =
      (sorted[rank] as number) / temperature + gumbel(seed, position, order[rank] as number);
    bestOfOthers = Math.max(bestOfOthers, perturbedLogit);
    if (rank >= kept) continue;
    if (perturbedLogit > best) [best, second, bestRank] = [perturbedLogit, best, rank];
    else if (perturbedLogit > second) second = perturbedLogit;
  }
  const isDecided = others === kept || bestOfOthers - best > minClearGap;
  return { rank: bestRank, isClear: best - second > minClearGap, isDecided };
}

/** Counts of a token that need one bit more when it is sampled again, and others. */
const countsBefore = [127, 255, 3, 65_535, 256, 0, 1023, 200, 32_767, 1];

const idleSlots = 2;
const promptMark = 0x80000000;

function makeCase(random: Random, shape: Shape): ParityCase {
  const { kind, vocabulary, rules, ties = false, zeros, spareRows = 0, allowed, nan } = shape;
  const tokens = rules.length;
  const slots = random.permutation(tokens + idleSlots);
  const logits = random.normals((tokens + spareRows) * vocabulary, 30);
  const samples = random.words((tokens + spareRows) * sampleWords);
  const floatFields = new Float32Array(samples.buffer);
  const seen = new Uint32Array(slots.length * vocabulary);
  for (let i = 0; i < seen.length; i++) {
    const bits = random.u32();
    if (bits < 1 << 29) seen[i] = (bits & 1 ? promptMark : 0) + ((bits >>> 1) & 7);
  }
  const sampled = Uint32Array.from(slots, () => random.integerBelow(vocabulary));
  const hasDrafts = rules.some(({ sequence }) => sequence !== undefined);
  let countedRows = 0;
  for (const [row, required] of rules.entries()) {
    const setup = generateRow(random, required, shape);
    if (ties) addTies(random, setup.logits);
    if (zeros) addZeros(random, setup.logits);
    if (nan && row === rules.length - 1) setup.logits.fill(Number.NaN);
    logits.set(setup.logits, row * vocabulary);
    const at = row * sampleWords;
    const slot = slots[required.sequence ?? row] as number;
    // With penalties, the kernel counts the sampled token; the engine does not verify drafts then. Other flags concern other
    // dispatches and must be ignored.
    const { bias, penalties: counted, mask, logprobs } = sampleFlags;
    const reportFlags = random.integerBelow(2) * (logprobs + (random.integerBelow(21) << topLogprobsShift));
    const isCounted = !hasDrafts && random.integerBelow(2) === 1;
    const flags =
      random.integerBelow(2) * bias + (isCounted ? counted : 0) + random.integerBelow(2) * mask + reportFlags;
    samples.set([row, slot, flags, setup.seed, setup.position, setup.rule.topK], at);
    const { temperature, topP, minP } = setup.rule;
    // Penalties can be negative.
    const penalties = [0.5 + random.uniform(), 4 * random.uniform() - 2, 4 * random.uniform() - 2];
    floatFields.set([temperature, topP, minP, ...penalties], at + 6);
    if (isCounted) {
      const count = countsBefore[countedRows++ % countsBefore.length] as number;
      seen[slot * vocabulary + setup.token] = random.integerBelow(2) * promptMark + count;
    }
    // Half of the rows sample the token that their slot sampled last.
    if (row % 2 === 0) sampled[slot] = setup.token;
    else if (random.integerBelow(4) === 0) sampled[slot] = random.u32();
  }
  const dims = { tokens, vocabulary };
  return {
    name: `${caseName(kind, dims, ['tokens', 'vocabulary'])}${ties ? ' ties' : ''}${zeros ? ' zeros' : ''}${allowed === undefined ? '' : ' masked'}${nan ? ' nan' : ''}${hasDrafts ? ' drafts' : ''}`,
    dims,
    tensors: { samples, logits, seen, sampled },
    params: { vocabulary },
    ...(hasDrafts ? { hasSharedOutputs: true as const } : {}),
  };
}

/** Copies the largest logit to some other tokens. */
function addTies(random: Random, logits: Float32Array): void {
  const greatest = logits.reduce((a, b) => Math.max(a, b));
  for (let i = randomBetween(random, 1, 4); i > 0; i--) logits[random.integerBelow(logits.length)] = greatest;
}

/** Tokens of this distance are looked at by one invocation of a workgroup. */
const laneDistance = 256;

/** Makes all logits negative but for a -0 and a 0 behind it: they are equal, although the bits of the second are greater. */
function addZeros(random: Random, logits: Float32Array): void {
  const greatest = logits.reduce((a, b) => Math.max(a, b));
  for (let i = 0; i < logits.length; i++) logits[i] = (logits[i] as number) - greatest - 1;
  const first = random.integerBelow(logits.length - laneDistance);
  logits[first] = -0;
  logits[first + laneDistance] = 0;
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
  // Where several rows have one slot, which of them writes last is open.
  const unspecified = new Uint8Array(sampled.length);
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
    if (preserved.sampled[slot] === 0 && sampled[slot] !== token) unspecified[slot] = 1;
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
    sampled: { values: sampled, preserved: preserved.sampled, unspecified },
    results: { values: results, preserved: preserved.results },
  };
}

export const sample: LabOp = {
  contract: contracts.get('sample') as Contract,
  cases(options) {
    const random = new Random(options.seed, 'sample');
    return shapes(random, options).map((shape) => makeCase(random, shape));
  },
  sizedCase({ seed, dims }) {
    const rule = { temperature: 0.8, topK: 40, topP: 0.95 };
    return makeCase(new Random(seed, 'sized sample'), {
      kind: 'live',
      vocabulary: requireMember(dims, 'vocabulary'),
      rules: repeatRule(requireMember(dims, 'tokens'), rule),
    });
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
