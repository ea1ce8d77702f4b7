/** Ops `rope`, `kv_write` and their fusion `rope_kv_write`. */
import { contracts, type Contract } from '../../../kernels/contracts.ts';
import { kvWrite } from '../../../kernels/reference/index.ts';
import { pageTokens, ropeKvWrite } from '../../../kernels/rope-kv-write.ts';
import type { ExpectedOutput, ParityCase, TensorData } from '../types.ts';
import { eraseStep } from './builtin.ts';
import {
  contextPositions,
  randomActivations,
  randomBetween,
  caseName,
  requireFloats,
  type CaseKind,
  type Magnitude,
  requireMember,
  stepDimsFor,
  requireWords,
  unreadFloats,
} from './case-generation.ts';
import {
  assignPages,
  farRuns,
  halvesOf,
  type IdPattern,
  idPatternCycle,
  PagedCacheLayout,
  randomHalves,
  lastTokens,
  singleTokenRuns,
  type TokenRun,
} from './paged.ts';
import { Random } from './random.ts';
import type { BuiltinStep, CaseOptions, LabOp } from './types.ts';

interface Shape {
  readonly kind: CaseKind;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly rotary: number;
  readonly neox: boolean;
  readonly runs: readonly TokenRun[];
  readonly magnitude?: Magnitude;
  readonly spareRows?: number;
  readonly maxPages?: number | undefined;
  /** Whether page indices need more than 8 bits. */
  readonly manyPages?: boolean;
  /** Default: each pattern in turn. */
  readonly ids?: IdPattern;
}

export const ropeOps: readonly LabOp[] = ['rope', 'kv_write', 'rope_kv_write'].map((op) => {
  const contract = contracts.get(op) as Contract;
  const rotates = contract.covers.includes('rope');
  const writes = contract.covers.includes('kv_write');
  return {
    contract,
    cases(options) {
      const random = new Random(options.seed, op);
      const idsOf = idPatternCycle(random);
      return shapes(random, options).map((shape, index) =>
        makeCase(random, contract, { ids: idsOf(index), ...shape }),
      );
    },
    sizedCase({ seed, dims }) {
      const random = new Random(seed, `sized ${op}`);
      const shape = {
        kind: 'live',
        heads: requireMember(dims, 'heads'),
        kvHeads: requireMember(dims, 'kv_heads'),
        headDim: requireMember(dims, 'head_dim'),
        rotary: dims['rotary'] ?? requireMember(dims, 'head_dim'),
        neox: true,
        runs: lastTokens(dims),
        ids: idPatternCycle(random)(0),
      } as const;
      return makeCase(random, contract, shape);
    },
    oracle: (one) => oracle(one, { rotates, writes }),
    // The built-in kernel always writes to the cache, and does not change k in qkv.
    builtin: (one) => (writes ? [builtin(one, rotates)] : undefined),
  };
});

/** Context of the largest step: each position occurs once. */
const everyPosition = 1024;

function shapes(random: Random, { strict, live = [] }: CaseOptions): Shape[] {
  const model = (heads: number, kvHeads: number, headDim: number, rotary: number, neox: boolean) => ({
    heads,
    kvHeads,
    headDim,
    rotary,
    neox,
  });
  const equalPosition = randomBetween(random, 1, 31);
  const list: Shape[] = [
    {
      kind: 'random',
      ...model(4, 2, 64, 64, false),
      runs: [
        { first: randomBetween(random, 0, 9), count: 3 },
        { first: randomBetween(random, 30, 70), count: 1 },
      ],
    },
    {
      kind: 'random',
      ...model(6, 2, 32, 32, true),
      runs: [
        { first: randomBetween(random, 28, 31), count: 4 },
        { first: randomBetween(random, 64, 99), count: 1 },
      ],
    },
    {
      kind: 'ragged',
      ...model(7, 1, 40, 24, true),
      runs: [
        { first: 0, count: 1 },
        { first: 63, count: randomBetween(random, 2, 4) },
        { first: randomBetween(random, 33, 60), count: 1 },
      ],
      spareRows: 2,
    },
    {
      kind: 'ragged',
      ...model(3, 3, 24, 12, false),
      runs: [
        { first: randomBetween(random, 5, 40), count: 33 },
        { first: 31, count: 1 },
      ],
      spareRows: 1,
    },
    { kind: 'extreme', ...model(4, 2, 64, 64, true), runs: [{ first: 30, count: 4 }], magnitude: 'large' },
    { kind: 'extreme', ...model(2, 1, 32, 16, false), runs: [{ first: 7, count: 2 }], magnitude: 'small' },
    {
      kind: 'one_row',
      ...model(9, 3, 64, 64, random.integerBelow(2) === 1),
      runs: [{ first: randomBetween(random, 40, 900), count: 1 }],
      spareRows: 3,
    },
    {
      kind: 'random',
      ...model(2, 1, 16, 16, random.integerBelow(2) === 1),
      // Long prompts between decoding sequences.
      runs: [
        ...singleTokenRuns(randomBetween(random, 1, 300)),
        { first: 3, count: 130 },
        ...singleTokenRuns(randomBetween(random, 1, 300), randomBetween(random, 1, 300)),
        { first: randomBetween(random, 1, 300), count: randomBetween(random, 96, 128) },
        { first: randomBetween(random, 1, 60), count: 2 },
      ],
    },
    { kind: 'ragged', ...model(5, 1, 8, 8, random.integerBelow(2) === 1), runs: [{ first: 1500, count: 3 }] },
    // Sequences at one position with the same id; pages with large indices.
    {
      kind: 'ragged',
      ...model(3, 1, 8, 8, random.integerBelow(2) === 1),
      maxPages: pageTokens,
      runs: [
        ...singleTokenRuns(equalPosition, randomBetween(random, 1, 31), equalPosition, equalPosition),
        { first: randomBetween(random, 33, 60), count: randomBetween(random, 33, 40) },
        ...singleTokenRuns(randomBetween(random, 990, 1023)),
      ],
      ids: 'equal',
    },
    // Positions of long contexts, which f16 and 16-bit integers do not have, and heads of large models.
    {
      kind: 'ragged',
      ...model(2, 1, 8, 4, random.integerBelow(2) === 1),
      runs: farRuns(
        random,
        [2049, 4099, 16_500, 65_600].map((near) => near + random.integerBelow(near >> 5)),
      ),
    },
    {
      kind: 'ragged',
      ...model(3, 2, 256, 256, random.integerBelow(2) === 1),
      runs: singleTokenRuns(randomBetween(random, 3, 40)),
    },
    {
      kind: 'ragged',
      ...model(16, 8, 128, 128, true),
      runs: singleTokenRuns(randomBetween(random, 3, 40), 5),
    },
    // Every position of a context.
    {
      kind: 'random',
      ...model(1, 1, 8, 8, random.integerBelow(2) === 1),
      maxPages: everyPosition / pageTokens,
      runs: [
        { first: 0, count: everyPosition / 2 },
        { first: everyPosition / 2, count: everyPosition / 2 },
      ],
      ids: 'mixed',
    },
    // Steps of one token at the start of a sequence, and at the first edge of a page.
    ...[0, 1, 2, pageTokens - 1, pageTokens].map((position) => ({
      kind: 'one_row' as const,
      ...model(2, 2, 16, 16, random.integerBelow(2) === 1),
      runs: singleTokenRuns(position),
    })),
  ];
  if (strict) {
    list.push(
      {
        kind: 'random',
        ...model(16, 4, 128, 128, true),
        runs: [{ first: randomBetween(random, 0, 300), count: 40 }],
        spareRows: 1,
      },
      {
        kind: 'ragged',
        ...model(5, 5, 80, 32, random.integerBelow(2) === 1),
        runs: [1, 2, 3, 4, 5].map((n) => ({ first: 31 * n, count: n })),
        spareRows: 2,
      },
      { kind: 'extreme', ...model(8, 8, 96, 96, false), runs: [{ first: 60, count: 9 }], magnitude: 'large' },
    );
  }
  for (const { dims, params } of live) {
    const common = {
      kind: 'live' as const,
      heads: requireMember(dims, 'heads'),
      kvHeads: requireMember(dims, 'kv_heads'),
      headDim: requireMember(dims, 'head_dim'),
      rotary: params['rotary'] ?? requireMember(dims, 'head_dim'),
      neox: params['neox'] === 1,
      maxPages: params['max_pages'],
      manyPages: true,
    };
    const context = Math.max(8, (params['max_pages'] ?? 4) * pageTokens);
    const [last = 0, ...others] = contextPositions(random, context, 3 * pageTokens);
    list.push(
      { ...common, runs: singleTokenRuns(last) },
      {
        ...common,
        runs: [
          { first: Math.min(context - 4, 29), count: 4 },
          { first: Math.min(context - 1, randomBetween(random, 1, 20)), count: 1 },
          ...farRuns(random, others),
        ],
      },
    );
  }
  return list;
}

/** Cached values must be within the range of f16, also after rotation. */
const maxCachedMagnitude = 4e4;

function makeCase(random: Random, { op, bindings }: Contract, shape: Shape): ParityCase {
  const { kind, heads, kvHeads, headDim, rotary, neox, runs } = shape;
  const { magnitude = 'ordinary', spareRows = 0, ids = 'mixed' } = shape;
  const { token, pageTable, maxPages, pages, positions } = assignPages(random, runs, {
    spareRows,
    maxPages: shape.maxPages,
    rowElements: kvHeads * headDim,
    ...(shape.manyPages === undefined ? {} : { manyPages: shape.manyPages }),
    ids,
  });
  const tokens = runs.reduce((sum, { count }) => sum + count, 0);
  const width = (heads + 2 * kvHeads) * headDim;
  const qkv = unreadFloats(random, (tokens + spareRows) * width);
  for (let t = 0; t < tokens; t++) {
    // An f16 cache stores small values with too few significant bits to verify them.
    const cachedMagnitude = magnitude === 'small' && op !== 'rope' ? 'ordinary' : magnitude;
    qkv.set(randomActivations(random, 1, heads * headDim, { magnitude }), t * width);
    const cached = randomActivations(random, 1, 2 * kvHeads * headDim, { magnitude: cachedMagnitude });
    const clamped =
      op === 'rope'
        ? cached
        : cached.map((v) => Math.max(-maxCachedMagnitude, Math.min(maxCachedMagnitude, v)));
    qkv.set(clamped, t * width + heads * headDim);
    // `kv_write` does not read q, and `rope` does not read v.
    if (op === 'kv_write') qkv.set(unreadFloats(random, heads * headDim), t * width);
    if (op === 'rope')
      qkv.set(unreadFloats(random, kvHeads * headDim), t * width + (heads + kvHeads) * headDim);
  }
  const elements = pages * kvHeads * pageTokens * headDim;
  const all: Record<string, TensorData> = {
    qkv,
    table: randomRopeTable(random, positions * (rotary / 2)),
    token,
    page_table: pageTable,
    k_cache: randomHalves(random, elements),
    v_cache: randomHalves(random, elements),
  };
  const dims = { tokens, heads, kv_heads: kvHeads, head_dim: headDim, rotary };
  return {
    name: `${caseName(kind, dims, ['tokens', 'heads', 'kv_heads', 'head_dim'])} rotary ${rotary}${neox ? ' neox' : ''}`,
    dims,
    tensors: Object.fromEntries(bindings.flatMap(({ name }) => (all[name] ? [[name, all[name]]] : []))),
    params: {
      heads,
      kv_heads: kvHeads,
      head_dim: headDim,
      rotary,
      neox: neox ? 1 : 0,
      max_pages: maxPages,
      page: pageTokens,
    },
  };
}

/** Rope table with the cosine and sine of random angles, so that a kernel must use the table. */
function randomRopeTable(random: Random, count: number): Float32Array<ArrayBuffer> {
  const table = new Float32Array(count * 2);
  for (let i = 0; i < count; i++) {
    const angle = 2 * Math.PI * random.uniform();
    table[2 * i] = Math.cos(angle);
    table[2 * i + 1] = Math.sin(angle);
  }
  return table;
}

interface Sizes {
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly rotary: number;
  readonly neox: boolean;
  readonly width: number;
}

function sizesOf({ params }: ParityCase): Sizes {
  const heads = requireMember(params, 'heads');
  const kvHeads = requireMember(params, 'kv_heads');
  const headDim = requireMember(params, 'head_dim');
  return {
    heads,
    kvHeads,
    headDim,
    rotary: requireMember(params, 'rotary'),
    neox: params['neox'] === 1,
    width: (heads + 2 * kvHeads) * headDim,
  };
}

/** Rotates the first `rotary` elements of a head in place, with a row of the table. */
function rotateHead(head: Float64Array, tableRow: Float32Array, { rotary, neox }: Sizes): void {
  for (let i = 0; i < rotary / 2; i++) {
    const [cos, sin] = [tableRow[2 * i] as number, tableRow[2 * i + 1] as number];
    const [first, second] = neox ? [i, i + rotary / 2] : [2 * i, 2 * i + 1];
    const [a, b] = [head[first] as number, head[second] as number];
    head[first] = a * cos - b * sin;
    head[second] = a * sin + b * cos;
  }
}

function oracle(
  one: ParityCase,
  { rotates, writes }: { rotates: boolean; writes: boolean },
): Readonly<Record<string, ExpectedOutput>> {
  const sizes = sizesOf(one);
  const { heads, kvHeads, headDim, rotary, width } = sizes;
  const tokens = requireMember(one.dims, 'tokens');
  const qkv = Float64Array.from(requireFloats(one.tensors, 'qkv'));
  const preserved = new Uint8Array(qkv.length).fill(1);
  const unspecified = new Uint8Array(qkv.length);
  const token = requireWords(one.tensors, 'token');
  for (let t = 0; rotates && t < tokens; t++) {
    const table = requireFloats(one.tensors, 'table');
    const position = token[t * 4 + 1] as number;
    const row = table.subarray(position * rotary, (position + 1) * rotary);
    for (let h = 0; h < heads + kvHeads; h++) {
      const start = t * width + h * headDim;
      rotateHead(qkv.subarray(start, start + headDim), row, sizes);
      preserved.fill(0, start, start + rotary);
    }
    // After k and v are in the cache, no node reads them in qkv.
    if (writes) {
      preserved.fill(0, t * width + heads * headDim, (t + 1) * width);
      unspecified.fill(1, t * width + heads * headDim, (t + 1) * width);
    }
  }
  const rotated = { qkv: { values: qkv, preserved, unspecified } };
  if (!writes) return rotated;
  const caches = {
    k_cache: expectedCache(one, 'k_cache', qkv, heads * headDim, sizes),
    v_cache: expectedCache(one, 'v_cache', qkv, (heads + kvHeads) * headDim, sizes),
  };
  return rotates ? { ...rotated, ...caches } : caches;
}

/** Expected cache after writing the heads at `offset` of every token's row. */
function expectedCache(
  one: ParityCase,
  name: 'k_cache' | 'v_cache',
  qkv: Float64Array,
  offset: number,
  { kvHeads, headDim, width }: Sizes,
): ExpectedOutput {
  const cache = new PagedCacheLayout(one);
  const initial = Float64Array.from(halvesOf(requireWords(one.tensors, name)));
  const tokens = requireMember(one.dims, 'tokens');
  const rows = new Float64Array(tokens * kvHeads * headDim);
  const slots: number[] = [];
  for (let t = 0; t < tokens; t++) {
    const start = t * width + offset;
    rows.set(qkv.subarray(start, start + kvHeads * headDim), t * kvHeads * headDim);
    for (let h = 0; h < kvHeads; h++) slots.push(cache.row(cache.slot(t), cache.position(t), h));
  }
  const preserved = new Uint8Array(initial.length).fill(1);
  for (const row of slots) preserved.fill(0, row * headDim, (row + 1) * headDim);
  return { values: kvWrite(initial, rows, slots, headDim, 'F16'), preserved };
}

function builtin(one: ParityCase, rotates: boolean): BuiltinStep {
  const { params, tensors, dims } = one;
  const { heads, kvHeads, headDim, rotary, neox } = sizesOf(one);
  return eraseStep(ropeKvWrite, {
    variant: { NEOX: neox, WG: 64, PAGE: pageTokens, PROMPT: false },
    params: {
      heads,
      kv_heads: kvHeads,
      head_dim: headDim,
      rotary: rotates ? rotary : 0,
      max_pages: requireMember(params, 'max_pages'),
      writes: 1,
    },
    bindings: {
      qkv: rotates ? { tensor: 'qkv' } : { data: requireFloats(tensors, 'qkv') },
      table: rotates ? { tensor: 'table' } : { scratch: 'table', bytes: 16 },
      token: { tensor: 'token' },
      page_table: { tensor: 'page_table' },
      k_cache: { tensor: 'k_cache' },
      v_cache: { tensor: 'v_cache' },
    },
    dims: stepDimsFor(requireMember(dims, 'tokens')),
  });
}
