import {
  attentionLanes,
  attentionTile,
  chooseDecodeAttention,
  chooseWideAttention,
} from '../../../kernels/attention-choices.ts';
import { decodeAttention, prefillAttention } from '../../../kernels/attention.ts';
import { contracts, type Contract } from '../../../kernels/contracts.ts';
import type { AdapterCaps } from '../../../kernels/define.ts';
import { attention } from '../../../kernels/reference/index.ts';
import { pageTokens } from '../../../kernels/rope-kv-write.ts';
import type { ExpectedOutput, ParityCase } from '../types.ts';
import { eraseStep } from './builtin.ts';
import {
  contextPositions,
  randomBetween,
  caseName,
  requireFloats,
  type CaseKind,
  type Magnitude,
  requireMember,
  smallMagnitude,
  stepDimsFor,
  requireWords,
  unreadFloats,
} from './case-generation.ts';
import { type Scores, setScores, shiftScores } from './attention-scores.ts';
import {
  assignPages,
  farRuns,
  halvesOf,
  type IdPattern,
  idPatternCycle,
  PagedCacheLayout,
  pagesOfManyRows,
  randomHalves,
  lastTokens,
  singleTokenRuns,
  type TokenRun,
} from './paged.ts';
import { Random } from './random.ts';
import type { BuiltinStep, CaseOptions, LabOp } from './types.ts';

interface Shape {
  readonly kind: CaseKind;
  readonly scores?: Scores;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly runs: readonly TokenRun[];
  readonly magnitude?: Magnitude;
  readonly spareRows?: number;
  readonly maxPages?: number | undefined;
  /** Whether page indices need more than 8 bits. */
  readonly manyPages?: boolean;
  readonly unusedPages?: number;
  /** Default: each pattern in turn. */
  readonly ids?: IdPattern;
  /** Size of the sliding window in positions; 0: no window. */
  readonly window?: number | undefined;
  /** Scale of the scores. Default: 1 / sqrt(head_dim). */
  readonly scale?: number | undefined;
}

export const attentionOps: readonly LabOp[] = ['attention', 'attention_decode'].map((op) => {
  const contract = contracts.get(op) as Contract;
  return {
    contract,
    cases(options) {
      const random = new Random(options.seed, op);
      const isSingleToken = contract.tokens === 'one';
      const list = isSingleToken ? decodeShapes(random, options) : shapes(random, options);
      const idsOf = idPatternCycle(random);
      return [
        ...list,
        ...smallPositions.map((position) => smallShape(random, position)),
        ...scoreShapes(random),
        ...largeHeads(random),
        ...liveShapes(random, contract, options),
        ...windowShapes(random).map((shape) =>
          isSingleToken ? { ...shape, runs: shape.runs.slice(-1) } : shape,
        ),
      ].map((shape, index) => makeCase(random, { ids: idsOf(index), ...shape }));
    },
    sizedCase({ seed, dims }) {
      const random = new Random(seed, `sized ${op}`);
      return makeCase(random, {
        kind: 'live',
        heads: requireMember(dims, 'heads'),
        kvHeads: requireMember(dims, 'kv_heads'),
        headDim: requireMember(dims, 'head_dim'),
        runs: lastTokens(dims),
        ids: idPatternCycle(random)(0),
      });
    },
    oracle,
    builtin,
  };
});

/** Positions at the start of a sequence, and at the first edge of a page: steps of one token there have cases of their own. */
const smallPositions = [0, 1, 2, pageTokens - 1, pageTokens];

const smallShape = (random: Random, position: number): Shape => ({
  kind: 'one_row',
  heads: 2 * randomBetween(random, 1, 2),
  kvHeads: 2,
  headDim: 8 * randomBetween(random, 1, 4),
  runs: singleTokenRuns(position),
});

/** Long contexts with unusual scores, and with one chunk of keys after the other. */
const scoreShapes = (random: Random): Shape[] => [
  ...(['equal', 'sink', 'negative', 'late'] as const).map((scores) => ({
    kind: 'extreme' as const,
    scores,
    heads: 2,
    kvHeads: 1,
    headDim: 16,
    runs: singleTokenRuns(randomBetween(random, 1024, 1100)),
  })),
  // Rows of the cache with large numbers.
  {
    kind: 'ragged',
    heads: 2,
    kvHeads: 1,
    headDim: 8,
    runs: singleTokenRuns(randomBetween(random, 150, 300)),
    unusedPages: pagesOfManyRows,
  },
];

/** Heads of large models, and as many of them. */
const largeHeads = (random: Random): Shape[] =>
  [
    [16, 8, 128],
    [12, 4, 96],
    [4, 1, 256],
  ].map(([heads = 1, kvHeads = 1, headDim = 8]) => ({
    kind: 'ragged',
    heads,
    kvHeads,
    headDim,
    runs: singleTokenRuns(randomBetween(random, 20, 70)),
  }));

/** A position in the middle of a page, not of the first `pages - 1` pages nor after the last. */
const midPage = (random: Random, pages: number): number =>
  pageTokens * randomBetween(random, 1, pages) + randomBetween(random, 3, pageTokens - 3);

/** Sequences that begin with the same pages; some end before that of the first row, others after. */
function sharedPrefixRuns(random: Random): TokenRun[] {
  const sharedPages = randomBetween(random, 1, 2);
  const start = sharedPages * pageTokens;
  const lead = randomBetween(random, 40, 90);
  const others = [randomBetween(random, 8, 30), lead, randomBetween(random, 100, 130)];
  return [
    ...[lead, ...others].map((more) => ({ first: start + more, count: 1, sharedPages })),
    { first: start, count: 3, sharedPages },
    { first: start + randomBetween(random, 5, 20), count: 2, sharedPages: 1 },
  ];
}

/** Context of the largest step: each position occurs once. */
const everyPosition = 896;

function shapes(random: Random, { strict }: CaseOptions): Shape[] {
  const equalPosition = randomBetween(random, 40, 90);
  const list: Shape[] = [
    // A prompt from position 0, together with a decoding sequence.
    {
      kind: 'random',
      heads: 4,
      kvHeads: 2,
      headDim: 64,
      runs: [
        { first: 0, count: randomBetween(random, 3, 5) },
        ...singleTokenRuns(randomBetween(random, 33, 60)),
      ],
    },
    {
      kind: 'ragged',
      heads: 6,
      kvHeads: 2,
      headDim: 24,
      runs: [
        { first: randomBetween(random, 60, 66), count: randomBetween(random, 2, 4) },
        ...singleTokenRuns(randomBetween(random, 28, 36)),
        { first: 30, count: 3 },
      ],
      spareRows: 2,
    },
    {
      kind: 'ragged',
      heads: 7,
      kvHeads: 1,
      headDim: 40,
      runs: singleTokenRuns(randomBetween(random, 64, 90), 0, 31, 32),
      spareRows: 1,
    },
    {
      kind: 'ragged',
      heads: 2,
      kvHeads: 2,
      headDim: 16,
      runs: [{ first: randomBetween(random, 10, 30), count: 33 }],
    },
    // Prompts that continue a cached prefix in the middle of a page; in the second case, after decoding sequences.
    {
      kind: 'ragged',
      heads: 2,
      kvHeads: 1,
      headDim: 16,
      runs: [{ first: midPage(random, 3), count: randomBetween(random, 33, 40) }],
    },
    {
      kind: 'random',
      heads: 2,
      kvHeads: 1,
      headDim: 8,
      runs: [
        ...singleTokenRuns(randomBetween(random, 100, 200), 33),
        { first: midPage(random, 2), count: randomBetween(random, 33, 70) },
        { first: midPage(random, 5), count: randomBetween(random, 2, 9) },
      ],
    },
    { kind: 'random', heads: 2, kvHeads: 1, headDim: 16, runs: sharedPrefixRuns(random) },
    // Sequences at one position, with equal and with pending ids.
    ...(['equal', 'pending'] as const).map((ids) => ({
      kind: 'random' as const,
      heads: 3,
      kvHeads: 1,
      headDim: 16,
      runs: singleTokenRuns(equalPosition, randomBetween(random, 3, 60), equalPosition, equalPosition),
      ids,
    })),
    {
      kind: 'ragged',
      heads: 2,
      kvHeads: 1,
      headDim: 16,
      runs: singleTokenRuns(randomBetween(random, 500, 700), 5),
    },
    {
      kind: 'extreme',
      heads: 4,
      kvHeads: 2,
      headDim: 32,
      runs: singleTokenRuns(45, 20, 33),
      magnitude: 'large',
    },
    { kind: 'extreme', heads: 3, kvHeads: 1, headDim: 32, runs: singleTokenRuns(38, 70), magnitude: 'small' },
    {
      kind: 'one_row',
      heads: 8,
      kvHeads: 2,
      headDim: 64,
      runs: singleTokenRuns(randomBetween(random, 65, 100)),
      spareRows: 2,
    },
    // Long prompts between decoding sequences.
    {
      kind: 'random',
      heads: 2,
      kvHeads: 1,
      headDim: 8,
      runs: [
        ...singleTokenRuns(randomBetween(random, 40, 200)),
        { first: 0, count: randomBetween(random, 128, 140) },
        ...singleTokenRuns(randomBetween(random, 1, 30), randomBetween(random, 40, 200)),
        { first: randomBetween(random, 1, 70), count: randomBetween(random, 96, 127) },
        ...singleTokenRuns(randomBetween(random, 1, 100)),
      ],
    },
    // Each position once, with page table rows as long as a page.
    {
      kind: 'random',
      heads: 1,
      kvHeads: 1,
      headDim: 8,
      maxPages: pageTokens,
      runs: [
        { first: 0, count: everyPosition / 2 },
        { first: everyPosition / 2, count: everyPosition / 2 },
      ],
      ids: 'mixed',
    },
    {
      kind: 'ragged',
      heads: 5,
      kvHeads: 1,
      headDim: 8,
      runs: singleTokenRuns(randomBetween(random, 1500, 1700), 12),
    },
  ];
  if (!strict) return list;
  return [
    ...list,
    {
      kind: 'random',
      heads: 8,
      kvHeads: 2,
      headDim: 128,
      runs: [{ first: randomBetween(random, 0, 90), count: 40 }],
    },
    {
      kind: 'ragged',
      heads: 5,
      kvHeads: 5,
      headDim: 80,
      runs: singleTokenRuns(3, 200, 64, 95, 96),
      spareRows: 3,
    },
    {
      kind: 'ragged',
      heads: 4,
      kvHeads: 1,
      headDim: 256,
      runs: singleTokenRuns(randomBetween(random, 1000, 2000), 0),
    },
    {
      kind: 'extreme',
      heads: 8,
      kvHeads: 4,
      headDim: 64,
      runs: singleTokenRuns(300, 64, 150),
      magnitude: 'large',
    },
  ];
}

function decodeShapes(random: Random, { strict }: CaseOptions): Shape[] {
  const makeShape = (
    kind: CaseKind,
    heads: number,
    kvHeads: number,
    headDim: number,
    position: number,
  ): Shape => ({
    kind,
    heads,
    kvHeads,
    headDim,
    runs: singleTokenRuns(position),
  });
  const list: Shape[] = [
    makeShape('random', 8, 2, 64, randomBetween(random, 40, 90)),
    { ...makeShape('ragged', 6, 2, 24, 32), spareRows: 2 },
    makeShape('ragged', 7, 1, 40, 31),
    makeShape('ragged', 4, 4, 16, randomBetween(random, 500, 900)),
    ...Array.from({ length: 8 }, () => ({
      ...makeShape('random', 1, 1, 8, randomBetween(random, 100, everyPosition - 1)),
      maxPages: pageTokens,
    })),
    { ...makeShape('extreme', 4, 2, 32, 45), magnitude: 'large' },
    { ...makeShape('extreme', 3, 1, 32, 70), magnitude: 'small' },
    { ...makeShape('one_row', 9, 3, 64, randomBetween(random, 65, 100)), spareRows: 3 },
  ];
  if (!strict) return list;
  return [
    ...list,
    makeShape('random', 16, 8, 128, randomBetween(random, 400, 600)),
    makeShape('ragged', 5, 1, 80, randomBetween(random, 1000, 3000)),
    makeShape('ragged', 2, 2, 256, randomBetween(random, 1, 300)),
    { ...makeShape('extreme', 8, 4, 64, 300), magnitude: 'large' },
  ];
}

/** Windows smaller than, equal to and larger than a page, and larger than the context. The last run has one token. */
function windowShapes(random: Random): Shape[] {
  const model = { kind: 'ragged' as const, heads: 4, kvHeads: 2, headDim: 16 };
  return [
    {
      ...model,
      window: 1,
      runs: [{ first: 0, count: 3 }, ...singleTokenRuns(randomBetween(random, 40, 70))],
    },
    {
      ...model,
      window: randomBetween(random, 5, 30),
      runs: [
        { first: randomBetween(random, 20, 40), count: 35 },
        ...singleTokenRuns(2, randomBetween(random, 200, 300)),
      ],
      scale: 0.5,
    },
    { ...model, window: 32, runs: [{ first: 60, count: 6 }, ...singleTokenRuns(31, 32, 95)] },
    {
      ...model,
      window: randomBetween(random, 90, 140),
      runs: singleTokenRuns(700, 96, 3, randomBetween(random, 400, 600)),
    },
    { ...model, window: 5000, runs: singleTokenRuns(7, randomBetween(random, 64, 90)) },
  ];
}

function liveShapes(random: Random, contract: Contract, { live = [] }: CaseOptions): Shape[] {
  return live.flatMap(({ dims, params }) => {
    const common = {
      kind: 'live' as const,
      heads: requireMember(dims, 'heads'),
      kvHeads: requireMember(dims, 'kv_heads'),
      headDim: requireMember(dims, 'head_dim'),
      maxPages: params['max_pages'],
      manyPages: true,
      window: params['window'],
      scale: params['scale'],
    };
    // The cache of the model may not have room for more, and the oracle no time.
    const context = Math.min(
      Math.max(8, (params['max_pages'] ?? 4) * pageTokens),
      Math.max(2 * pageTokens, Math.floor(maxLiveProducts / (common.heads * common.headDim))),
    );
    const positions = contextPositions(random, context, (common.window ?? 0) + 3 * pageTokens);
    if (contract.tokens === 'one')
      return [...positions, 5].map((position) => ({
        ...common,
        runs: singleTokenRuns(Math.min(context - 1, position)),
      }));
    const alone = { ...common, runs: singleTokenRuns(positions[0] as number) };
    const runs = [
      { first: Math.min(Math.max(0, context - 4), randomBetween(random, 20, 40)), count: 4 },
      ...singleTokenRuns(Math.min(context - 1, 7)),
      ...farRuns(random, positions.slice(1)),
    ];
    // A prompt in the middle of a page, with as many rows as there is room for.
    const first = Math.min(midPage(random, 1), Math.max(0, context - 2));
    const prompt = [{ first, count: Math.min(pageTokens + 2, context - first) }, ...singleTokenRuns(first)];
    return [alone, { ...common, runs }, { ...common, runs: prompt }];
  });
}

/** Maximum number of multiply-adds of the oracle for the scores of a live token. */
const maxLiveProducts = 2e7;

/** Magnitude of values in the extreme case. The largest f16 is 65504. */
const largeValue = 1e4;

function makeCase(random: Random, shape: Shape): ParityCase {
  const { kind, heads, kvHeads, headDim, runs, magnitude = 'ordinary', spareRows = 0, ids = 'mixed' } = shape;
  const { window = 0, scale = headDim ** -0.5 } = shape;
  const { token, pageTable, maxPages, pages } = assignPages(random, runs, {
    spareRows,
    maxPages: shape.maxPages,
    rowElements: kvHeads * headDim,
    ...(shape.manyPages === undefined ? {} : { manyPages: shape.manyPages }),
    unusedPages: shape.unusedPages,
    ids,
  });
  const tokens = runs.reduce((sum, { count }) => sum + count, 0);
  const read = runs.flatMap(({ first, count }) =>
    Array.from({ length: count }, (_, n) => Math.min(first + n + 1, window || Number.POSITIVE_INFINITY)),
  );
  const context = read.reduce((sum, positions) => sum + positions, 0) / tokens;
  const elements = pages * kvHeads * pageTokens * headDim;
  const valueScale = magnitude === 'large' ? largeValue : magnitude === 'small' ? 1e-3 : 1;
  // Scores of about 1.5: no single position dominates, and none is negligible.
  const qkv = random.normals((tokens + spareRows) * (heads + 2 * kvHeads) * headDim, 1.5);
  const keys = randomHalves(random, elements);
  if (magnitude === 'small') qkv.forEach((value, i) => (qkv[i] = value * smallMagnitude));
  if (magnitude === 'large') shiftScores(random, qkv, halvesOf(keys), { heads, kvHeads, headDim });
  const values = randomHalves(random, elements, valueScale);
  if (shape.scores)
    setScores(random, shape.scores, {
      qkv,
      keys: halvesOf(keys),
      values: halvesOf(values),
      headDim,
      layout: new PagedCacheLayout({
        tensors: { token, page_table: pageTable },
        params: { page: pageTokens, max_pages: maxPages, kv_heads: kvHeads },
      }),
    });
  // Keys and values come from the cache: those of the rows are not read, nor are spare rows.
  const width = (heads + 2 * kvHeads) * headDim;
  for (let t = 0; t < tokens + spareRows; t++) {
    const first = t < tokens ? heads * headDim : 0;
    qkv.set(unreadFloats(random, width - first), t * width + first);
  }
  const dims = { tokens, heads, kv_heads: kvHeads, head_dim: headDim, context };
  return {
    name: `${caseName(kind, dims, ['tokens', 'heads', 'kv_heads', 'head_dim'])} context ${Math.round(context)}${window > 0 ? ` window ${window}` : ''}`,
    dims,
    tensors: {
      qkv,
      token,
      page_table: pageTable,
      k_cache: keys,
      v_cache: values,
    },
    params: {
      heads,
      kv_heads: kvHeads,
      head_dim: headDim,
      max_pages: maxPages,
      page: pageTokens,
      scale,
      window,
    },
  };
}

function oracle(one: ParityCase): Readonly<Record<string, ExpectedOutput>> {
  const { tensors, params, dims } = one;
  const [heads, kvHeads, headDim] = ['heads', 'kv_heads', 'head_dim'].map((name) =>
    requireMember(params, name),
  ) as [number, number, number];
  const tokens = requireMember(dims, 'tokens');
  const qkv = requireFloats(tensors, 'qkv');
  const width = (heads + 2 * kvHeads) * headDim;
  const cache = new PagedCacheLayout(one);
  const [keys, values] = [
    halvesOf(requireWords(tensors, 'k_cache')),
    halvesOf(requireWords(tensors, 'v_cache')),
  ];
  const values64 = new Float64Array((qkv.length / width) * heads * headDim);
  const preserved = new Uint8Array(values64.length).fill(1).fill(0, 0, tokens * heads * headDim);
  const window = params['window'] || Number.POSITIVE_INFINITY;
  const shape = { heads, kvHeads, headDim, scale: Math.fround(requireMember(params, 'scale')), window };
  const row = kvHeads * headDim;
  // Each slot's keys and values by position, gathered once up to its last token.
  const contexts = new Map<number, { k: Float32Array; v: Float32Array }>();
  const lengths = new Map<number, number>();
  for (let t = 0; t < tokens; t++) {
    const slot = cache.slot(t);
    lengths.set(slot, Math.max(lengths.get(slot) ?? 0, cache.position(t) + 1));
  }
  for (const [slot, length] of lengths) {
    const context = { k: new Float32Array(length * row), v: new Float32Array(length * row) };
    for (let p = 0; p < length; p++) {
      for (let h = 0; h < kvHeads; h++) {
        const from = cache.row(slot, p, h) * headDim;
        const to = (p * kvHeads + h) * headDim;
        context.k.set(keys.subarray(from, from + headDim), to);
        context.v.set(values.subarray(from, from + headDim), to);
      }
    }
    contexts.set(slot, context);
  }
  for (let t = 0; t < tokens; t++) {
    const end = (cache.position(t) + 1) * row;
    const { k, v } = contexts.get(cache.slot(t)) as { k: Float32Array; v: Float32Array };
    const queries = qkv.subarray(t * width, t * width + heads * headDim);
    const out = attention(queries, [cache.position(t)], k.subarray(0, end), v.subarray(0, end), shape);
    values64.set(out, t * heads * headDim);
  }
  return { out: { values: values64, preserved } };
}

/** Tiles as the scheduler builds them: a single token, or as many consecutive tokens as a tile can hold. */
function buildTiles(one: ParityCase, tile: number): { single: number[]; wide: number[] } {
  const cache = new PagedCacheLayout(one);
  const tokens = requireMember(one.dims, 'tokens');
  const lists = { single: [] as number[], wide: [] as number[] };
  for (let t = 0; t < tokens; ) {
    let end = t + 1;
    while (
      end < tokens &&
      end - t < tile &&
      cache.slot(end) === cache.slot(t) &&
      cache.position(end) === cache.position(t) + end - t
    )
      end += 1;
    const list = end - t === 1 ? lists.single : lists.wide;
    list.push(t, end - t, cache.slot(t), cache.position(t));
    t = end;
  }
  return lists;
}

/**
 * The built-in kernel is compiled for each head configuration, which takes seconds on a software adapter. So it runs
 * only for the configurations of the resident model, and only on adapters with subgroups.
 */
function builtin(one: ParityCase, caps: AdapterCaps): BuiltinStep[] | undefined {
  const { params, dims } = one;
  const isModelCase = /^(live|captured) /.test(one.name);
  if (!isModelCase || attentionLanes(caps, requireMember(params, 'head_dim')) === 0) return undefined;
  const [heads, kvHeads, headDim] = ['heads', 'kv_heads', 'head_dim'].map((name) =>
    requireMember(params, name),
  ) as [number, number, number];
  const model = { heads, kvHeads, headDim };
  const tiles = buildTiles(one, attentionTile(model).tile);
  const window = params['window'] ?? 0;
  const shared = {
    heads,
    kv_heads: kvHeads,
    max_pages: requireMember(params, 'max_pages'),
    out_stride: heads * headDim,
    scale: requireMember(params, 'scale'),
    loop_limit: 1024,
    window,
  };
  const inputsOf = (list: readonly number[]) => ({
    qkv: { tensor: 'qkv' },
    tiles: { data: Uint32Array.from(list) },
    page_table: { tensor: 'page_table' },
    k_cache: { tensor: 'k_cache' },
    v_cache: { tensor: 'v_cache' },
    out: { tensor: 'out' },
  });
  const dimsOf = (given: Parameters<typeof stepDimsFor>[1]) =>
    stepDimsFor(requireMember(dims, 'tokens'), given);
  const steps: BuiltinStep[] = [];
  if (tiles.single.length > 0) {
    steps.push(
      eraseStep(decodeAttention, {
        variant: chooseDecodeAttention(caps, model, { window: window > 0 }),
        params: {
          ...shared,
          max_splits: 1,
          rotary: 0,
          eps: 0,
          writes: 0,
          v_norm: 0,
        },
        bindings: inputsOf(tiles.single),
        dims: dimsOf({ singleTiles: tiles.single.length / 4, wideTiles: 0 }),
      }),
    );
  }
  if (tiles.wide.length > 0) {
    steps.push(
      eraseStep(prefillAttention, {
        variant: chooseWideAttention(caps, model, { window: window > 0 }),
        params: shared,
        bindings: inputsOf(tiles.wide),
        dims: dimsOf({ singleTiles: 0, wideTiles: tiles.wide.length / 4 }),
      }),
    );
  }
  return steps;
}
