/** Ops `rope`, `kv_write` and their fusion `rope_kv_write`. */
import { contracts, type Contract } from '../../../kernels/contracts.ts';
import { kvWrite } from '../../../kernels/reference/index.ts';
import { pageTokens, ropeKvWrite } from '../../../kernels/rope-kv-write.ts';
import type { ExpectedOutput, ParityCase, TensorData } from '../types.ts';
import { erasedStep } from './builtin.ts';
import {
  activations,
  between,
  caseName,
  floats,
  type Kind,
  type Magnitude,
  member,
  stepOf,
  words,
} from './draws.ts';
import { halfNormals, halvesOf, PagedPlaces, place, type Run } from './paged.ts';
import { Random } from './random.ts';
import type { BuiltinStep, CaseOptions, LabOp } from './types.ts';

interface Shape {
  readonly kind: Kind;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly rotary: number;
  readonly neox: boolean;
  readonly runs: readonly Run[];
  readonly magnitude?: Magnitude;
  readonly spare?: number;
  readonly maxPages?: number | undefined;
}

export const rotationOps: readonly LabOp[] = ['rope', 'kv_write', 'rope_kv_write'].map((op) => {
  const contract = contracts.get(op) as Contract;
  const turns = contract.covers.includes('rope');
  const writes = contract.covers.includes('kv_write');
  return {
    contract,
    cases(options) {
      const random = new Random(options.seed, op);
      return shapes(random, options).map((shape) => makeCase(random, contract, shape));
    },
    oracle: (one) => oracle(one, { turns, writes }),
    // The built-in kernel always writes to the cache, and does not change k in qkv.
    builtin: (one) => (writes ? [builtin(one, turns)] : undefined),
  };
});

function shapes(random: Random, { strict, live = [] }: CaseOptions): Shape[] {
  const model = (heads: number, kvHeads: number, headDim: number, rotary: number, neox: boolean) => ({
    heads,
    kvHeads,
    headDim,
    rotary,
    neox,
  });
  const list: Shape[] = [
    {
      kind: 'random',
      ...model(4, 2, 64, 64, false),
      runs: [
        { first: between(random, 0, 9), count: 3 },
        { first: between(random, 30, 70), count: 1 },
      ],
    },
    {
      kind: 'random',
      ...model(6, 2, 32, 32, true),
      runs: [
        { first: between(random, 28, 31), count: 4 },
        { first: between(random, 64, 99), count: 1 },
      ],
    },
    {
      kind: 'ragged',
      ...model(7, 1, 40, 24, true),
      runs: [
        { first: 0, count: 1 },
        { first: 63, count: between(random, 2, 4) },
        { first: between(random, 33, 60), count: 1 },
      ],
      spare: 2,
    },
    {
      kind: 'ragged',
      ...model(3, 3, 24, 12, false),
      runs: [
        { first: between(random, 5, 40), count: 33 },
        { first: 31, count: 1 },
      ],
      spare: 1,
    },
    { kind: 'extreme', ...model(4, 2, 64, 64, true), runs: [{ first: 30, count: 4 }], magnitude: 'large' },
    { kind: 'extreme', ...model(2, 1, 32, 16, false), runs: [{ first: 7, count: 2 }], magnitude: 'small' },
    {
      kind: 'one_row',
      ...model(9, 3, 64, 64, random.below(2) === 1),
      runs: [{ first: between(random, 40, 900), count: 1 }],
      spare: 3,
    },
    { kind: 'random', ...model(2, 1, 16, 16, random.below(2) === 1), runs: [{ first: 3, count: 130 }] },
    { kind: 'ragged', ...model(5, 1, 8, 8, random.below(2) === 1), runs: [{ first: 1500, count: 3 }] },
  ];
  if (strict) {
    list.push(
      {
        kind: 'random',
        ...model(16, 4, 128, 128, true),
        runs: [{ first: between(random, 0, 300), count: 40 }],
        spare: 1,
      },
      {
        kind: 'ragged',
        ...model(5, 5, 80, 32, random.below(2) === 1),
        runs: [1, 2, 3, 4, 5].map((n) => ({ first: 31 * n, count: n })),
        spare: 2,
      },
      { kind: 'extreme', ...model(8, 8, 96, 96, false), runs: [{ first: 60, count: 9 }], magnitude: 'large' },
    );
  }
  for (const { dims, params } of live) {
    const common = {
      kind: 'live' as const,
      heads: member(dims, 'heads'),
      kvHeads: member(dims, 'kv_heads'),
      headDim: member(dims, 'head_dim'),
      rotary: params['rotary'] ?? member(dims, 'head_dim'),
      neox: params['neox'] === 1,
      maxPages: params['max_pages'],
    };
    const most = Math.max(8, (params['max_pages'] ?? 4) * pageTokens) - 6;
    list.push(
      { ...common, runs: [{ first: Math.min(most, between(random, 33, 90)), count: 1 }] },
      {
        ...common,
        runs: [
          { first: Math.min(most, 29), count: 4 },
          { first: Math.min(most, between(random, 1, 20)), count: 1 },
        ],
      },
    );
  }
  return list;
}

/** Cached values must be within the range of f16, also after rotation. */
const greatestCached = 4e4;

function makeCase(random: Random, { op, bindings }: Contract, shape: Shape): ParityCase {
  const { kind, heads, kvHeads, headDim, rotary, neox, runs } = shape;
  const { magnitude = 'ordinary', spare = 0 } = shape;
  const { token, pageTable, maxPages, pages, positions } = place(random, runs, {
    spare,
    maxPages: shape.maxPages,
    rowElements: kvHeads * headDim,
  });
  const tokens = runs.reduce((sum, { count }) => sum + count, 0);
  const width = (heads + 2 * kvHeads) * headDim;
  const qkv = random.normals((tokens + spare) * width, 30);
  for (let t = 0; t < tokens; t++) {
    // An f16 cache stores small values with too few significant bits to verify them.
    const size = magnitude === 'small' && op !== 'rope' ? 'ordinary' : magnitude;
    qkv.set(activations(random, 1, heads * headDim, { magnitude }), t * width);
    const cached = activations(random, 1, 2 * kvHeads * headDim, { magnitude: size });
    const bounded =
      op === 'rope' ? cached : cached.map((v) => Math.max(-greatestCached, Math.min(greatestCached, v)));
    qkv.set(bounded, t * width + heads * headDim);
  }
  const elements = pages * kvHeads * pageTokens * headDim;
  const all: Record<string, TensorData> = {
    qkv,
    table: angles(random, positions * (rotary / 2)),
    token,
    page_table: pageTable,
    k_cache: halfNormals(random, elements),
    v_cache: halfNormals(random, elements),
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
function angles(random: Random, count: number): Float32Array<ArrayBuffer> {
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
  const heads = member(params, 'heads');
  const kvHeads = member(params, 'kv_heads');
  const headDim = member(params, 'head_dim');
  return {
    heads,
    kvHeads,
    headDim,
    rotary: member(params, 'rotary'),
    neox: params['neox'] === 1,
    width: (heads + 2 * kvHeads) * headDim,
  };
}

/** Rotates the first `rotary` elements of a head in place, with a row of the table. */
function turnHead(head: Float64Array, turns: Float32Array, { rotary, neox }: Sizes): void {
  for (let i = 0; i < rotary / 2; i++) {
    const [cos, sin] = [turns[2 * i] as number, turns[2 * i + 1] as number];
    const [one, two] = neox ? [i, i + rotary / 2] : [2 * i, 2 * i + 1];
    const [a, b] = [head[one] as number, head[two] as number];
    head[one] = a * cos - b * sin;
    head[two] = a * sin + b * cos;
  }
}

function oracle(
  one: ParityCase,
  { turns, writes }: { turns: boolean; writes: boolean },
): Readonly<Record<string, ExpectedOutput>> {
  const sizes = sizesOf(one);
  const { heads, kvHeads, headDim, rotary, width } = sizes;
  const tokens = member(one.dims, 'tokens');
  const qkv = Float64Array.from(floats(one.tensors, 'qkv'));
  const kept = new Uint8Array(qkv.length).fill(1);
  const open = new Uint8Array(qkv.length);
  const token = words(one.tensors, 'token');
  for (let t = 0; turns && t < tokens; t++) {
    const table = floats(one.tensors, 'table');
    const position = token[t * 4 + 1] as number;
    const row = table.subarray(position * rotary, (position + 1) * rotary);
    for (let h = 0; h < heads + kvHeads; h++) {
      const start = t * width + h * headDim;
      turnHead(qkv.subarray(start, start + headDim), row, sizes);
      kept.fill(0, start, start + rotary);
    }
    // After k and v are in the cache, no node reads them in qkv.
    if (writes) {
      kept.fill(0, t * width + heads * headDim, (t + 1) * width);
      open.fill(1, t * width + heads * headDim, (t + 1) * width);
    }
  }
  const rotated = { qkv: { values: qkv, kept, open } };
  if (!writes) return rotated;
  const caches = {
    k_cache: written(one, 'k_cache', qkv, heads * headDim, sizes),
    v_cache: written(one, 'v_cache', qkv, (heads + kvHeads) * headDim, sizes),
  };
  return turns ? { ...rotated, ...caches } : caches;
}

/** Expected cache after writing the heads at `offset` of every token's row. */
function written(
  one: ParityCase,
  name: 'k_cache' | 'v_cache',
  qkv: Float64Array,
  offset: number,
  { kvHeads, headDim, width }: Sizes,
): ExpectedOutput {
  const places = new PagedPlaces(one);
  const before = Float64Array.from(halvesOf(words(one.tensors, name)));
  const tokens = member(one.dims, 'tokens');
  const rows = new Float64Array(tokens * kvHeads * headDim);
  const slots: number[] = [];
  for (let t = 0; t < tokens; t++) {
    const start = t * width + offset;
    rows.set(qkv.subarray(start, start + kvHeads * headDim), t * kvHeads * headDim);
    for (let h = 0; h < kvHeads; h++) slots.push(places.row(places.slot(t), places.position(t), h));
  }
  const kept = new Uint8Array(before.length).fill(1);
  for (const row of slots) kept.fill(0, row * headDim, (row + 1) * headDim);
  return { values: kvWrite(before, rows, slots, headDim, 'F16'), kept };
}

function builtin(one: ParityCase, turns: boolean): BuiltinStep {
  const { params, tensors, dims } = one;
  const { heads, kvHeads, headDim, rotary, neox } = sizesOf(one);
  return erasedStep(ropeKvWrite, {
    variant: { NEOX: neox, WG: 64, PAGE: pageTokens, PROMPT: false },
    params: {
      heads,
      kv_heads: kvHeads,
      head_dim: headDim,
      rotary: turns ? rotary : 0,
      max_pages: member(params, 'max_pages'),
      writes: 1,
    },
    bindings: {
      qkv: turns ? { tensor: 'qkv' } : { data: floats(tensors, 'qkv') },
      table: turns ? { tensor: 'table' } : { scratch: 'table', bytes: 16 },
      token: { tensor: 'token' },
      page_table: { tensor: 'page_table' },
      k_cache: { tensor: 'k_cache' },
      v_cache: { tensor: 'v_cache' },
    },
    dims: stepOf(member(dims, 'tokens')),
  });
}
