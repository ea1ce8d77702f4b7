import { beforeAll, describe, expect, it } from 'vitest';
import { applyRope, f16FromNumber, numberFromF16, type Rope } from '../../../kernels/reference/index.ts';
import { ropeKvWrite, singleTileFlag } from '../../../kernels/rope-kv-write.ts';
import { ropeTable } from '../../../src/engine/memory/rope-table.ts';
import {
  expectClose,
  expectUntouched,
  type KernelHarness,
  kernelHarness,
  random,
  randomValues,
  variantName,
} from '../../support/kernel-harness.ts';
import { PagedCache } from './paged-cache.ts';

let harness: KernelHarness;
beforeAll(async () => {
  harness = await kernelHarness();
});

interface Case {
  heads: number;
  kvHeads: number;
  headDim: number;
  rotary: number;
  /** [slot, position] of every token. */
  tokens: readonly (readonly [slot: number, position: number])[];
  factors?: boolean;
  /** Magnitude of the values; the cache holds at most 65504. */
  size?: number;
}

/** Half a unit in the last place of f16, plus the error of f32 arithmetic. */
const roundingOf = (value: number) => Math.max(Math.abs(value), 2 ** -14) * 2 ** -11 * 1.01 + 1e-6;

async function runCase(
  variant: (typeof ropeKvWrite.variants)[number],
  shape: Case,
  seed: number,
): Promise<void> {
  const { heads, kvHeads, headDim, rotary, tokens, factors = false, size = 1 } = shape;
  const next = random(seed);
  const all = heads + 2 * kvHeads;
  const stride = all * headDim;
  const maxPosition = Math.max(...tokens.map(([, position]) => position));
  const maxPages = Math.floor(maxPosition / 32) + 2;
  const cache = new PagedCache({ slots: 3, maxPages, kvHeads, headDim }, next);
  const rope: Rope = {
    style: variant.NEOX ? 'neox' : 'interleaved',
    theta: 10000,
    rotaryDim: rotary,
    linearFactor: 2,
    magnitude: factors ? 1.3 : 1,
    ...(factors ? { freqFactors: Float32Array.from({ length: rotary / 2 }, (_, i) => 1 + i / 3) } : {}),
  };
  const table = ropeTable(
    {
      theta: rope.theta,
      rotary,
      style: rope.style,
      scale: 2,
      magnitude: factors ? 1.3 : 1,
      ...(factors ? { factors: rope.freqFactors as Float32Array } : {}),
    },
    maxPosition + 1,
  );
  // The second of three tokens is alone in its tile, so attention handles it.
  const alone = (t: number) => t % 3 === 1;
  const skipped = (t: number) => variant.PROMPT && alone(t);
  // One row more than there are tokens.
  const qkv = randomValues((tokens.length + 1) * stride, next, size);
  const before = { k: cache.poisoned(), v: cache.poisoned() };
  const out = await harness.run(
    ropeKvWrite,
    variant,
    {
      params: { heads, kv_heads: kvHeads, head_dim: headDim, rotary, max_pages: maxPages, writes: 1 },
      dims: { tokens: tokens.length, wideTiles: 1 },
      buffers: {
        qkv,
        table,
        token: Uint32Array.from(
          tokens.flatMap(([slot, position], t) => [12345, position, slot, alone(t) ? singleTileFlag : 0]),
        ),
        page_table: cache.pageTable,
        k_cache: before.k,
        v_cache: before.v,
      },
    },
    ['qkv', 'k_cache', 'v_cache'],
  );

  const positions = [...tokens.map(([, position]) => position), 0];
  const turned = applyRope(qkv, positions, { heads: all, headDim }, rope);
  const got = new Float32Array(out['qkv'] as ArrayBuffer);
  const k = new Uint16Array(out['k_cache'] as ArrayBuffer);
  const v = new Uint16Array(out['v_cache'] as ArrayBuffer);
  const writtenWords = new Set<number>();
  const q = { got: [] as number[], expected: [] as number[] };
  for (const [t, [slot, position]] of tokens.entries()) {
    if (skipped(t)) continue;
    for (let i = 0; i < heads * headDim; i++) {
      q.got.push(got[t * stride + i] as number);
      q.expected.push(turned[t * stride + i] as number);
    }
    for (let head = 0; head < kvHeads; head++) {
      const to = cache.at(slot, position, head);
      for (let d = 0; d < headDim; d++) {
        writtenWords.add((to + d) >> 1);
        const key = turned[t * stride + (heads + head) * headDim + d] as number;
        const off = Math.abs(numberFromF16(k[to + d] as number) - key);
        expect(off, `key ${t}/${head}/${d}`).toBeLessThanOrEqual(roundingOf(key));
        const value = qkv[t * stride + (heads + kvHeads + head) * headDim + d] as number;
        expect(v[to + d], `value ${t}/${head}/${d}: ${value}`).toBe(f16FromNumber(value));
      }
    }
  }
  expectClose(q.got, q.expected, { nmse: 1e-12, maxAbs: 2e-5 * size }, 'queries');
  // Keys and values in qkv are unchanged, and so is the row after the last token.
  const isQuery = (word: number) =>
    word < tokens.length * stride && word % stride < heads * headDim && !skipped(Math.floor(word / stride));
  expectUntouched(out['qkv'] as ArrayBuffer, qkv, isQuery, 'qkv');
  expectUntouched(out['k_cache'] as ArrayBuffer, before.k, (word) => writtenWords.has(word), 'k cache');
  expectUntouched(out['v_cache'] as ArrayBuffer, before.v, (word) => writtenWords.has(word), 'v cache');
}

/** A run of positions of one slot. */
const run = (slot: number, first: number, count: number) =>
  Array.from({ length: count }, (_, i) => [slot, first + i] as const);

describe('rope_kv_write equals the oracle', () => {
  for (const variant of ropeKvWrite.variants) {
    const cases: Record<string, Case> = {
      'one token, a tiny head': { heads: 1, kvHeads: 1, headDim: 8, rotary: 8, tokens: [[0, 0]] },
      'a run across a page, GQA 7': {
        heads: 14,
        kvHeads: 2,
        headDim: 64,
        rotary: 64,
        tokens: run(2, 27, 40),
      },
      'several sequences, each at its own position': {
        heads: 4,
        kvHeads: 2,
        headDim: 128,
        rotary: 128,
        tokens: [
          [1, 31],
          [0, 32],
          [2, 0],
          [0, 33],
          [1, 1023],
        ],
      },
      'a quarter of a head rotated': { heads: 3, kvHeads: 1, headDim: 64, rotary: 16, tokens: run(0, 60, 9) },
      'a head that is no power of two, 4 of it rotated': {
        heads: 2,
        kvHeads: 2,
        headDim: 24,
        rotary: 4,
        tokens: run(1, 3, 5),
      },
      'three quarters of a head rotated, frequencies divided': {
        heads: 2,
        kvHeads: 1,
        headDim: 80,
        rotary: 60,
        tokens: run(1, 500, 3),
        factors: true,
      },
      'values an f16 can only just hold': {
        heads: 2,
        kvHeads: 1,
        headDim: 16,
        rotary: 16,
        tokens: run(0, 0, 2),
        size: 20000,
      },
      'values below the normal f16': {
        heads: 2,
        kvHeads: 1,
        headDim: 16,
        rotary: 16,
        tokens: run(0, 0, 2),
        size: 1e-5,
      },
    };
    for (const [name, shape] of Object.entries(cases)) {
      it(`${variantName(variant)}: ${name}`, () => runCase(variant, shape, 1));
    }
  }
});
