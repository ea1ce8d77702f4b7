import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import {
  attentionTile,
  type AttentionVariant,
  chooseDecodeAttention,
  chooseFlashDecode,
  chooseWideAttention,
  type DecodeAttentionVariant,
  type FlashDecodeVariant,
} from '../../../kernels/attention-choices.ts';
import {
  attentionCombine,
  decodeAttention,
  encoderAttention,
  flashDecodeAttention,
  prefillAttention,
} from '../../../kernels/attention.ts';
import { eraseVariant } from '../../../kernels/define.ts';
import {
  applyRope,
  attention as reference,
  f16FromNumber,
  numberFromF16,
  rmsNorm,
} from '../../../kernels/reference/index.ts';
import { ropeTable } from '../../../src/engine/memory/rope-table.ts';
import {
  expectClose,
  expectUntouched,
  type Fault,
  type KernelHarness,
  kernelHarness,
  poisoned,
  random,
  randomValues,
  variantName,
} from '../../support/kernel-harness.ts';
import { runsRest, selectCases, selectVariants, tier, type Tier } from '../../support/tier.ts';
import { pageTokens } from '../../../kernels/rope-kv-write.ts';
import { PagedCache } from './paged-cache.ts';

let harness: KernelHarness;
beforeAll(async () => {
  harness = await kernelHarness();
});

/** Scores and sums are f32, and the cache is compared after rounding; measured 6e-12 and 2e-5. */
const tolerance = { nmse: 1e-10, maxAbs: 1e-4 };

/** Tokens of one sequence at consecutive positions. */
interface Run {
  slot: number;
  first: number;
  count: number;
}

interface Scene {
  heads: number;
  kvHeads: number;
  headDim: number;
  runs: readonly Run[];
  /** Magnitude of the scores. */
  size?: number;
  /** Every token attends to its whole run. */
  bidirectional?: boolean;
  /** Number of positions that a token attends to. */
  window?: number;
  /** An attention sink for each head: of the size of scores, and beyond both ends. */
  sinks?: Float32Array<ArrayBuffer>;
  /** For a variant that rotates: the heads of v are normalized, too. */
  vNorm?: boolean;
  /** For a variant that rotates: keys and values belong to another layer and are all in the cache already. */
  readsOnly?: boolean;
}

/** A kernel with a variant; `decode` has tiles of one token. */
type Subject =
  | { readonly kind: 'decode'; readonly variant: DecodeAttentionVariant | FlashDecodeVariant }
  | { readonly kind: 'prefill' | 'encoder'; readonly variant: AttentionVariant };
const isSplit = (subject: Subject) => subject.kind === 'decode' && subject.variant.SPLIT;

const eps = 1e-6;
const theta = 10000;
const rounded = (value: number) => numberFromF16(f16FromNumber(value));

/** For a variant that rotates: q and k are raw, and the token's own position in the cache is empty. */
function rotationOf(variant: DecodeAttentionVariant, kind: { rotary: number; normWeights: Float32Array }) {
  const { HEAD_DIM: headDim, NEOX, QK_NORM } = variant;
  const { rotary, normWeights } = kind;
  const style = NEOX ? ('neox' as const) : ('interleaved' as const);
  const turn = (rows: Float32Array, position: number, weight: Float32Array) => {
    const heads = rows.length / headDim;
    const normed = QK_NORM
      ? rmsNorm(rows, weight, { rows: heads, cols: headDim, eps })
      : Float64Array.from(rows);
    return applyRope(normed, [position], { heads, headDim }, { style, theta, rotaryDim: rotary });
  };
  return {
    table: (positions: number) => ropeTable({ theta, rotary, style, scale: 1, magnitude: 1 }, positions),
    q: (rows: Float32Array, position: number) => turn(rows, position, normWeights.subarray(0, headDim)),
    k: (rows: Float32Array, position: number) =>
      turn(rows, position, normWeights.subarray(headDim, 2 * headDim)),
    v: (rows: Float32Array) =>
      rmsNorm(rows, normWeights.subarray(2 * headDim), { rows: rows.length / headDim, cols: headDim, eps }),
  };
}
type Rotation = ReturnType<typeof rotationOf>;

/** Key and value of a token that the kernel computes and writes. */
interface OwnKey {
  readonly slot: number;
  readonly position: number;
  readonly k: Float64Array;
  readonly v: Float64Array;
  readonly row: number;
  /** The oracle's output of the row for this key and value. */
  attend(key: Float64Array, value: Float64Array): ArrayLike<number>;
}

/** The inputs of a scene and the oracle's output; [tokens, heads, headDim]. */
function build(scene: Scene, seed: number, rotation?: Rotation) {
  const { heads, kvHeads, headDim, runs, size = 1, window = Number.POSITIVE_INFINITY } = scene;
  const { sinks } = scene;
  const next = random(seed);
  const slots = Math.max(...runs.map((run) => run.slot)) + 1;
  const longest = Math.max(...runs.map((run) => run.first + run.count));
  const cache = new PagedCache({ slots, maxPages: Math.ceil(longest / 32) + 1, kvHeads, headDim }, next);
  const k = cache.poisoned();
  const v = cache.poisoned();
  const tokens = runs.reduce((sum, run) => sum + run.count, 0);
  const stride = (heads + 2 * kvHeads) * headDim;
  const qkv = new Float32Array(tokens * stride).fill(Number.NaN); // attention must not read k and v of it
  const scale = headDim ** -0.5;
  const expected: number[] = [];
  const own: OwnKey[] = [];
  let row = 0;
  for (const { slot, first, count } of runs) {
    if (rotation && scene.readsOnly) {
      const all = [k, v].map((buffer) =>
        cache.fill(buffer, slot, randomValues((first + 1) * kvHeads * headDim, next)),
      ) as [Float64Array, Float64Array];
      const q = randomValues(heads * headDim, next, size);
      qkv.set(q, row * stride);
      const shape = { heads, kvHeads, headDim, scale, window, ...(sinks ? { sinks } : {}) };
      for (const value of reference(rotation.q(q, first), [first], ...all, shape)) expected.push(value);
      row += 1;
      continue;
    }
    if (rotation) {
      const before = [k, v].map((buffer) =>
        cache.fill(buffer, slot, randomValues(first * kvHeads * headDim, next)),
      ) as [Float64Array, Float64Array];
      const q = randomValues(heads * headDim, next, size);
      const raw = [0, 1].map(() => randomValues(kvHeads * headDim, next)) as [Float32Array, Float32Array];
      qkv.set([...q, ...raw[0], ...raw[1]], row * stride);
      const given = scene.vNorm ? rotation.v(raw[1]) : Float64Array.from(raw[1]);
      const made = { k: rotation.k(raw[0], first).map(rounded), v: given.map(rounded) };
      const shape = { heads, kvHeads, headDim, scale, window, ...(sinks ? { sinks } : {}) };
      const attend = (key: Float64Array, value: Float64Array) => {
        const keys = Float64Array.from([...before[0], ...key]);
        const values = Float64Array.from([...before[1], ...value]);
        return reference(rotation.q(q, first), [first], keys, values, shape);
      };
      own.push({ slot, position: first, ...made, row, attend });
      for (const value of attend(made.k, made.v)) expected.push(value);
      row += 1;
      continue;
    }
    const both = { bidirectional: scene.bidirectional ?? false, ...(sinks ? { sinks } : {}) };
    const shape = { heads, kvHeads, headDim, scale, window, ...both };
    const keys = cache.fill(k, slot, randomValues((first + count) * kvHeads * headDim, next));
    const values = cache.fill(v, slot, randomValues((first + count) * kvHeads * headDim, next));
    const queries = randomValues(count * heads * headDim, next, size);
    for (let t = 0; t < count; t++) {
      const width = heads * headDim;
      qkv.set(queries.subarray(t * width, (t + 1) * width), (row + t) * stride);
    }
    const positions = Array.from({ length: count }, (_, t) => first + t);
    for (const value of reference(queries, positions, keys, values, shape)) {
      expected.push(value);
    }
    row += count;
  }
  // Pages that no query of a sequence attends to hold NaN, so that reading them shows.
  for (const { slot, first } of runs) {
    const unseen = Math.floor(Math.max(0, first + 1 - window) / pageTokens) * pageTokens;
    for (const buffer of [k, v]) cache.spoil(buffer, slot, unseen);
  }
  return { cache, k, v, qkv, tokens, scale, expected, own };
}

/** Splits runs into tiles of at most `tile` tokens. */
function tilesOf(runs: readonly Run[], tile: number, bidirectional = false): number[][] {
  const tiles: number[][] = [];
  let row = 0;
  for (const { slot, first, count } of runs) {
    for (let done = 0; done < count; done += tile) {
      const tokens = Math.min(tile, count - done) + (bidirectional ? count << 16 : 0);
      tiles.push([row + done, tokens, slot, first + done]);
    }
    row += count;
  }
  return tiles;
}

/** A variant that rotates is tested with a whole head and with three quarters of it. */
function rotationFor({ kind, variant }: Subject, seed: number) {
  if (kind !== 'decode' || !variant.ROPE) return {};
  const rotary = seed % 2 === 0 ? variant.HEAD_DIM : (variant.HEAD_DIM * 3) / 4;
  const normWeights = randomValues(3 * variant.HEAD_DIM, random(seed + 100));
  return { rotation: rotationOf(variant, { rotary, normWeights }), rotary, normWeights };
}

/**
 * Keys and values that the kernel wrote: those of the tokens, and no others. What is expected of the output is then computed from
 * them, because they may differ from the oracle's by a rounding to f16.
 */
function expectCache(
  out: Record<string, ArrayBuffer>,
  made: ReturnType<typeof build>,
  headDim: number,
): void {
  const { cache, own } = made;
  const got = {
    k: new Uint16Array(out['k_cache'] as ArrayBuffer),
    v: new Uint16Array(out['v_cache'] as ArrayBuffer),
  };
  const placeOf = ({ slot, position }: OwnKey, index: number) =>
    cache.at(slot, position, Math.floor(index / headDim)) + (index % headDim);
  for (const part of ['k', 'v'] as const) {
    const written = new Set<number>();
    for (const one of own) {
      one[part].forEach((value, index) => {
        const at = placeOf(one, index);
        written.add(at >> 1);
        // They differ by at most one rounding, because the oracle rounds from doubles.
        expect(Math.abs(numberFromF16(got[part][at] as number) - value)).toBeLessThan(
          2 ** -10 * Math.max(0.1, Math.abs(value)),
        );
      });
    }
    expectUntouched(
      out[`${part}_cache`] as ArrayBuffer,
      made[part],
      (word) => written.has(word),
      `${part} cache`,
    );
  }
  for (const one of own) {
    const writtenOf = (part: 'k' | 'v') =>
      one[part].map((_, index) => numberFromF16(got[part][placeOf(one, index)] as number));
    const values = one.attend(writtenOf('k'), writtenOf('v'));
    for (let i = 0; i < values.length; i++) made.expected[one.row * values.length + i] = values[i] as number;
  }
}

/** Parameters and buffers of one dispatch over all tiles of a scene; `split`: only for `decode`. */
async function dispatch(
  subject: Subject,
  scene: Scene,
  seed: number,
  {
    out,
    outStride,
    split,
  }: {
    out: (made: ReturnType<typeof build>, tiles: readonly number[][]) => Float32Array<ArrayBuffer>;
    outStride: number;
    split?: { splitTokens: number; max_splits: number; splits: number };
  },
) {
  const { kind, variant } = subject;
  const rotating = rotationFor(subject, seed);
  const { rotation, rotary = 0, normWeights } = rotating;
  const made = build(scene, seed, rotation);
  const tiles = tilesOf(scene.runs, variant.TILE, kind === 'encoder').map(
    ([row = 0, count = 0, ...place]) => [row, count + (split?.splitTokens ?? 0) * 0x10000, ...place],
  );
  const before = out(made, tiles);
  const params = {
    heads: scene.heads,
    kv_heads: scene.kvHeads,
    max_pages: made.cache.shape.maxPages,
    out_stride: outStride,
    scale: made.scale,
    loop_limit: 1024,
    window: scene.window ?? 0,
  };
  const buffers = {
    qkv: made.qkv,
    tiles: Uint32Array.from(tiles.flat()),
    page_table: made.cache.pageTable,
    k_cache: made.k,
    v_cache: made.v,
    out: before,
    ...(variant.SINKS ? { sinks: scene.sinks } : {}),
    ...(rotation ? { table: rotation.table(2048), norm_weight: normWeights } : {}),
  };
  const results = rotation ? ['out', 'k_cache', 'v_cache'] : ['out'];
  const { tokens } = made;
  const got =
    kind === 'decode'
      ? await harness.run(
          eraseVariant('KEY_LANES' in variant ? flashDecodeAttention : decodeAttention),
          variant,
          {
            params: {
              ...params,
              max_splits: split?.max_splits ?? 1,
              rotary,
              eps,
              writes: Number(scene.readsOnly !== true),
              v_norm: Number(scene.vNorm === true),
            },
            dims: {
              tokens,
              ...(split ? { splitTiles: tiles.length, splits: split.splits } : { singleTiles: tiles.length }),
            },
            buffers,
          },
          results,
        )
      : await harness.run(
          kind === 'prefill' ? prefillAttention : encoderAttention,
          variant,
          { params, dims: { tokens, wideTiles: tiles.length }, buffers },
          results,
        );
  if (rotation) expectCache(got, made, scene.headDim);
  return { out: got['out'] as ArrayBuffer, before, made, tiles };
}

async function runWhole(subject: Subject, scene: Scene, seed: number): Promise<void> {
  const { heads, headDim } = scene;
  const stride = heads * headDim + 6;
  const { out, before, made } = await dispatch(subject, scene, seed, {
    out: ({ tokens }) => poisoned((tokens + 2) * stride),
    outStride: stride,
  });
  expectRows(out, before, made, heads * headDim, stride);
}

async function runSplit(subject: Subject, scene: Scene, splitTokens: number, seed: number): Promise<void> {
  const { heads, headDim, window = 0 } = scene;
  const splitsOf = (position: number) => Math.floor(position / splitTokens) + 1;
  const firstSplitOf = (position: number) =>
    window > 0 ? Math.floor(Math.max(0, position + 1 - window) / splitTokens) : 0;
  const splits = Math.max(...scene.runs.map(({ first }) => splitsOf(first)));
  expect(splits, 'the scene must have splits').toBeGreaterThan(1);
  const maxSplits = splits + 1;
  const words = headDim + 2;
  const limits = { max_splits: maxSplits };
  const stride = heads * headDim + 6;
  const partial = await dispatch(subject, scene, seed, {
    out: (_, tiles) => poisoned(tiles.length * heads * maxSplits * words),
    outStride: stride,
    split: { splitTokens, ...limits, splits },
  });
  const { made, tiles } = partial;
  // A token writes the splits that it attends to, and no others.
  expectUntouched(
    partial.out,
    partial.before,
    (word) => {
      const split = Math.floor(word / words) % maxSplits;
      const tile = tiles[Math.floor(word / (words * maxSplits * heads))];
      const position = tile?.[3];
      return position !== undefined && split < splitsOf(position) && split >= firstSplitOf(position);
    },
    'partial sums',
  );
  const result = poisoned((made.tokens + 2) * stride);
  const out = await harness.run(
    attentionCombine,
    { WG: 64, SINKS: scene.sinks !== undefined },
    {
      params: { heads, head_dim: headDim, ...limits, out_stride: stride, window },
      dims: { tokens: made.tokens, splitTiles: tiles.length, splits },
      buffers: {
        partial: new Uint8Array(partial.out),
        tiles: Uint32Array.from(tiles.flat()),
        out: result,
        ...(scene.sinks ? { sinks: scene.sinks } : {}),
      },
    },
    ['out'],
  );
  expectRows(out['out'] as ArrayBuffer, result, made, heads * headDim, stride);
}

function expectRows(
  out: ArrayBuffer,
  before: Float32Array<ArrayBuffer>,
  made: { tokens: number; expected: number[] },
  width: number,
  stride: number,
): void {
  const got = new Float32Array(out);
  const rows: number[] = [];
  for (let t = 0; t < made.tokens; t++) rows.push(...got.subarray(t * stride, t * stride + width));
  expectClose(rows, made.expected, tolerance, 'context');
  expectUntouched(out, before, (word) => word < made.tokens * stride && word % stride < width, 'context');
}

/** Single tokens with awkward context lengths; the position is one less. The emulator takes a second for a thousand positions. */
const contexts = [1, 2, 31, 32, 33, 511, 512, 513, 1025];
const shortContexts = [1, 33, 64, 130];
const single = (...lengths: number[]): Run[] =>
  lengths.map((length, slot) => ({ slot, first: length - 1, count: 1 }));

/** Prompts in one step, some after a cached prefix, and partial tiles. */
const prompts: Run[] = [
  { slot: 1, first: 0, count: 11 },
  { slot: 0, first: 29, count: 5 },
  { slot: 3, first: 500, count: 14 },
  { slot: 2, first: 64, count: 1 },
];

/** Whole sequences of one step with bidirectional attention. */
const wholes: Run[] = [
  { slot: 1, first: 0, count: 11 },
  { slot: 0, first: 0, count: 1 },
  { slot: 3, first: 0, count: 133 },
  { slot: 2, first: 0, count: 32 },
];

/** Heads for the variant's group; twice as many where possible. */
const headsOf = (variant: AttentionVariant) => ({ heads: variant.GROUP * 2, kvHeads: 2 });

/** Some as large as scores, one with almost no share of the softmax, and one with almost all of it. */
function sinksOf(heads: number): Float32Array<ArrayBuffer> {
  const sinks = randomValues(heads, random(77), 2);
  sinks[1] = -60;
  sinks[heads - 1] = 9;
  return sinks;
}

/** @param sinks of the heads; a split variant leaves them to the kernel that combines the splits */
async function runVariant(
  subject: Subject,
  model: { heads: number; kvHeads: number },
  sinks = subject.variant.SINKS,
): Promise<void> {
  const { kind, variant } = subject;
  if (harness.emulates(variant)) return runShort(subject, model, sinks);
  const scores = sinks ? { sinks: sinksOf(model.heads) } : {};
  const scene = { ...model, headDim: variant.HEAD_DIM, ...scores };
  if (kind === 'encoder') {
    const both = { ...scene, bidirectional: true };
    for (const [index, window] of (variant.WINDOW ? [1, 5, 32, 33, 5000] : [undefined]).entries()) {
      const own = window === undefined ? both : { ...both, window };
      await runWhole(subject, { ...own, runs: wholes }, 100 + index);
      await runWhole(subject, { ...own, runs: wholes.slice(0, 1), size: 20 }, 110 + index);
    }
    if (!variant.WINDOW) await runWhole(subject, { ...both, runs: [{ slot: 0, first: 0, count: 301 }] }, 9);
  } else if (variant.WINDOW) {
    // Smaller than a tile, about as wide as a page, and across splits.
    for (const [index, window] of [5, 32, 33, 600].entries()) {
      const own = { ...scene, window };
      if (kind === 'prefill') await runWhole(subject, { ...own, runs: prompts }, 20 + index);
      else if (isSplit(subject)) {
        await runSplit(subject, { ...own, runs: single(...contexts) }, 512, 40 + index);
        await runSplit(subject, { ...own, runs: single(100, 1, 64, 65, 300) }, 64, 60 + index);
      } else await runWhole(subject, { ...own, runs: single(...contexts) }, 80 + index);
    }
  } else if (kind === 'prefill') {
    await runWhole(subject, { ...scene, runs: prompts }, 1);
    await runWhole(subject, { ...scene, runs: [{ slot: 0, first: 0, count: 1 }] }, 2);
    await runWhole(subject, { ...scene, runs: [{ slot: 0, first: 1020, count: 9 }] }, 3);
  } else if (isSplit(subject)) {
    await runSplit(subject, { ...scene, runs: single(...contexts) }, 512, 4);
    await runSplit(subject, { ...scene, runs: single(100, 1, 64, 65) }, 64, 5);
  } else {
    await runWhole(subject, { ...scene, runs: single(...contexts) }, 6);
    // Scores of several hundred: e^score overflows f32 unless the maximum is subtracted first.
    await runWhole(subject, { ...scene, runs: single(40, 70), size: 100 }, 7);
  }
  if (kind === 'decode' && variant.ROPE) await runAsGemma(subject, scene);
}

/** Less text than `runVariant`: each path once. */
async function runShort(
  subject: Subject,
  model: { heads: number; kvHeads: number },
  sinks: boolean,
): Promise<void> {
  const { kind, variant } = subject;
  const scores = sinks ? { sinks: sinksOf(model.heads) } : {};
  const window = variant.WINDOW ? { window: 33 } : {};
  const scene = { ...model, headDim: variant.HEAD_DIM, ...scores, ...window };
  if (kind === 'encoder') {
    await runWhole(
      subject,
      {
        ...scene,
        bidirectional: true,
        runs: [
          { slot: 1, first: 0, count: 11 },
          { slot: 0, first: 0, count: 67 },
        ],
      },
      100,
    );
  } else if (kind === 'prefill') {
    await runWhole(
      subject,
      {
        ...scene,
        runs: [
          { slot: 1, first: 0, count: 11 },
          { slot: 0, first: 62, count: 5 },
        ],
      },
      1,
    );
  } else if (isSplit(subject)) await runSplit(subject, { ...scene, runs: single(...shortContexts) }, 64, 4);
  else {
    await runWhole(subject, { ...scene, runs: single(...shortContexts) }, 6);
    // Scores of several hundred: e^score overflows f32 unless the maximum is subtracted first.
    await runWhole(subject, { ...scene, runs: single(40, 70), size: 100 }, 7);
  }
  if (kind === 'decode' && variant.ROPE) await runAsGemma(subject, scene);
}

/** Values are normalized as well, and layers that share keys rotate queries only. */
async function runAsGemma(
  subject: Subject & { readonly kind: 'decode' },
  scene: Pick<Scene, 'heads' | 'kvHeads' | 'headDim' | 'sinks'>,
): Promise<void> {
  const { variant } = subject;
  const window = variant.WINDOW ? { window: 33 } : {};
  const runs = harness.emulates(variant) ? single(1, 70) : single(1, 70, 130, 40);
  const ways = [...(variant.QK_NORM ? [{ vNorm: true }] : []), { readsOnly: true }];
  for (const [index, way] of ways.entries()) {
    const own = { ...scene, ...window, ...way, runs };
    if (variant.SPLIT) await runSplit(subject, own, 64, 120 + index);
    else await runWhole(subject, own, 122 + index);
  }
}

/** Small heads have all modes. Wider ones are among the models below. */
const isNarrow = ({ HEAD_DIM, GROUP }: AttentionVariant) =>
  (HEAD_DIM === 32 && GROUP === 2) || (HEAD_DIM === 128 && GROUP === 4);
const selected = (as: Tier): Subject[] => [
  ...selectVariants(decodeAttention.variants, isNarrow, as).map((variant) => ({
    kind: 'decode' as const,
    variant,
  })),
  ...selectVariants(flashDecodeAttention.variants, isNarrow, as).map((variant) => ({
    kind: 'decode' as const,
    variant,
  })),
  ...selectVariants(prefillAttention.variants, isNarrow, as).map((variant) => ({
    kind: 'prefill' as const,
    variant,
  })),
  ...selectVariants(encoderAttention.variants, isNarrow, as).map((variant) => ({
    kind: 'encoder' as const,
    variant,
  })),
];

/** The adapter compiles each for seconds: `npm test` emulates its sample, which `test:rest` runs on the adapter. */
const suites = [
  {
    name: 'attention equals the oracle',
    emulates: tier === 'default' ? 'all' : 'slow',
    subjects: selected(tier),
  },
  ...(tier === 'rest'
    ? [
        {
          name: 'the attention of npm test equals the oracle',
          emulates: 'needed',
          subjects: selected('default'),
        } as const,
      ]
    : []),
] as const;
describe.each(suites)('$name', ({ emulates, subjects }) => {
  let usual: KernelHarness;
  beforeAll(async () => {
    usual = harness;
    harness = await kernelHarness(undefined, { emulates });
  });
  afterAll(() => {
    harness.gpu.device.destroy();
    harness = usual;
  });
  for (const subject of subjects) {
    const { kind, variant } = subject;
    it(`${kind} ${variantName(variant)}`, async () => {
      await runVariant(subject, headsOf(variant));
      if (kind === 'decode' && variant.SPLIT && !variant.QK_NORM) {
        await runVariant(subject, headsOf(variant), true);
      }
    });
  }
});

describe('attention as the engine selects it for this adapter equals the oracle', () => {
  type Choice =
    | { kind: 'decode'; mode: Parameters<typeof chooseDecodeAttention>[2] }
    | { kind: 'prefill' | 'encoder'; mode: Parameters<typeof chooseWideAttention>[2] };
  const decode = (mode: Parameters<typeof chooseDecodeAttention>[2] = {}): Choice => ({
    kind: 'decode',
    mode,
  });
  const prefill = (mode: Parameters<typeof chooseWideAttention>[2] = {}): Choice => ({
    kind: 'prefill',
    mode,
  });
  const encoder = (window = false): Choice => ({ kind: 'encoder', mode: { window } });
  const [whole, wide, split] = [decode(), prefill(), decode({ split: true })];
  const turning = decode({ rope: 'interleaved' });
  const windowed = prefill({ window: true });
  const turned = decode({ rope: 'neox', qkNorm: true, window: true });
  const normed = decode({ rope: 'neox', qkNorm: true, split: true });
  const headNormed = decode({ rope: 'neox', qkNorm: true });
  const sinks = [false, true].flatMap((window) => [
    decode({ sinks: true, window }),
    prefill({ sinks: true, window }),
    decode({ sinks: true, window, split: true }),
    decode({ sinks: true, window, rope: 'neox' }),
  ]);
  /** Every third choice is in `npm test` where a model has many, which share most of their code. */
  const sampleStep = ({ choices }: { choices: readonly Choice[] }) => (choices.length > 4 ? 3 : 1);
  const models: { heads: number; kvHeads: number; headDim: number; choices: Choice[] }[] = [
    { heads: 8, kvHeads: 4, headDim: 8, choices: [whole, wide, split] },
    { heads: 4, kvHeads: 2, headDim: 64, choices: [whole, wide, split, turning, normed, windowed, turned] },
    { heads: 4, kvHeads: 1, headDim: 256, choices: [whole, wide, windowed, turned] },
    // Two workgroups share a key head, of which one writes the key and the value.
    { heads: 8, kvHeads: 1, headDim: 512, choices: [whole, wide, split, normed, headNormed] },
    { heads: 8, kvHeads: 1, headDim: 256, choices: [wide, windowed, turned, normed] },
    { heads: 4, kvHeads: 2, headDim: 512, choices: [prefill({ tile: 1 }), windowed] },
    { heads: 4, kvHeads: 4, headDim: 96, choices: [whole, wide, turning] },
    { heads: 14, kvHeads: 2, headDim: 64, choices: [whole, wide, split] },
    { heads: 16, kvHeads: 2, headDim: 32, choices: [whole, wide, turning] },
    { heads: 12, kvHeads: 12, headDim: 32, choices: [encoder()] },
    { heads: 3, kvHeads: 1, headDim: 256, choices: [encoder(), encoder(true)] },
    { heads: 9, kvHeads: 3, headDim: 40, choices: [wide] },
    { heads: 16, kvHeads: 2, headDim: 64, choices: sinks },
    { heads: 11, kvHeads: 1, headDim: 16, choices: [wide] },
  ];
  const cases = models.flatMap((model, index) =>
    model.choices.map((choice, nth) => ({
      model,
      choice,
      isSample: index % 3 === 0 && nth % sampleStep(model) === 0,
    })),
  );
  for (const { model, choice } of selectCases(cases, ({ isSample }) => isSample)) {
    const { tile, group } = attentionTile(model);
    const name = `${model.heads} heads, ${model.kvHeads} of keys, ${model.headDim} wide (${tile} x ${group})`;
    it(`${name}: ${choice.kind} ${JSON.stringify(choice.mode)}`, async () => {
      const { caps } = harness.gpu;
      const subject: Subject =
        choice.kind === 'decode'
          ? { kind: 'decode', variant: chooseDecodeAttention(caps, model, choice.mode) }
          : { kind: choice.kind, variant: chooseWideAttention(caps, model, choice.mode) };
      await runVariant(subject, model, choice.mode.sinks === true);
      if (choice.kind !== 'decode') return;
      const flash = chooseFlashDecode({ ...caps, software: false }, model, choice.mode);
      // A software adapter compiles the widest for a minute.
      const isQuick = model.headDim * group <= (runsRest ? 1024 : 128);
      if (flash && isQuick)
        await runVariant({ kind: 'decode', variant: flash }, model, choice.mode.sinks === true);
    });
  }
});

describe('faults that show only with many lanes are noticed', () => {
  const flashAt = (lanes: number): Subject => {
    const caps = { subgroupSize: lanes, f16: false, software: false };
    const mode = lanes <= 32 ? ({ rope: 'neox', qkNorm: true } as const) : {};
    const variant = chooseFlashDecode(caps, { heads: 8, kvHeads: 2, headDim: 128 }, mode);
    if (!variant) throw new Error(`no variant with ${lanes} lanes`);
    return { kind: 'decode', variant };
  };
  const prefillAt = (lanes: number): Subject => {
    const variant = prefillAttention.variants.find(
      (one) => one.SUBGROUPS && one.LANES === lanes && one.HEAD_DIM === 64 && !one.WINDOW && !one.SINKS,
    );
    if (!variant) throw new Error(`no variant with ${lanes} lanes`);
    return { kind: 'prefill', variant };
  };
  const faults: (Fault & { at: (lanes: number) => Subject; lanes: number })[] = [
    {
      file: 'attention_flash_decode.wgsl',
      from: 'other < LANES;',
      to: 'other < min(LANES, 32u);',
      at: flashAt,
      lanes: 64,
    },
    {
      file: 'attention_flash_decode.wgsl',
      from: 'subgroupShuffleXor(mass[r], other)',
      to: 'subgroupShuffleXor(mass[r], min(other, 16u))',
      at: flashAt,
      lanes: 64,
    },
    {
      file: 'attention_flash_decode.wgsl',
      from: 'return inverseSqrt(subgroupAdd(squares)',
      to: 'return inverseSqrt(subgroupAdd(select(0.0, squares, lane < 16u))',
      at: flashAt,
      lanes: 32,
    },
    {
      file: 'attention_flash_decode.wgsl',
      from: 'let base = start + sub * TURNS * PLACES + place;',
      to: 'let base = start + sub * TURNS * min(PLACES, 2u) + place;',
      at: flashAt,
      lanes: 64,
    },
    {
      file: 'lib/attention.wgsl',
      from: 'at % LANES);',
      to: 'at % min(LANES, 16u));',
      at: prefillAt,
      lanes: 32,
    },
    {
      file: 'lib/attention.wgsl',
      from: 'let value_row = subgroupShuffle(row, n);',
      to: 'let value_row = subgroupShuffle(row, n & 15u);',
      at: prefillAt,
      lanes: 32,
    },
  ];
  it.each(faults)('$file: $to', async ({ at, lanes, ...fault }) => {
    const honest = harness;
    onTestFinished(() => {
      harness = honest;
    });
    const subject = at(lanes);
    await runVariant(subject, headsOf(subject.variant));
    harness = await kernelHarness(fault);
    await expect(runVariant(subject, headsOf(subject.variant))).rejects.toThrow();
    const unchanged = at(8);
    await runVariant(unchanged, headsOf(unchanged.variant));
  });
});
