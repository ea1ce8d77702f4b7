import { beforeAll, describe, it } from 'vitest';
import { rmsNorm as reference } from '../../../kernels/reference/index.ts';
import { rmsNorm, type RmsNormVariant } from '../../../kernels/rms-norm.ts';
import { singleTileFlag } from '../../../kernels/rope-kv-write.ts';
import { sampleWords } from '../../../kernels/sample.ts';
import {
  expectClose,
  expectUntouched,
  type KernelHarness,
  kernelHarness,
  poisoned,
  random,
  randomValues,
  variantName,
} from '../../support/kernel-harness.ts';
import { selectVariants } from '../../support/tier.ts';

let harness: KernelHarness;
beforeAll(async () => {
  harness = await kernelHarness();
});

const tolerance = { nmse: 1e-12, maxAbs: 2e-5 };

/** `count` sample records with the given rows; the rest is garbage. */
function samplesOf(rows: readonly number[]): Uint32Array<ArrayBuffer> {
  const words = new Uint32Array(rows.length * sampleWords).fill(0x7fffffff);
  rows.forEach((row, s) => (words[s * sampleWords] = row));
  return words;
}

interface Rows {
  tokens: number;
  columns: number;
  size?: number;
  eps?: number;
}

/** Rows of separate buffers, with the output wider than the input. */
async function runRows(variant: RmsNormVariant, shape: Rows, seed: number): Promise<void> {
  const { tokens, columns, size = 1, eps = 1e-5 } = shape;
  const next = random(seed);
  const x = randomValues(tokens * columns, next, size);
  const weight = randomValues(columns, next);
  const picked = Array.from({ length: tokens }, (_, s) => (s * 7 + 3) % tokens);
  const stride = columns + 5;
  const offset = 3;
  const y = poisoned((tokens + 1) * stride);
  const out = await harness.run(
    rmsNorm,
    variant,
    {
      params: {
        columns,
        heads: 1,
        in_stride: columns,
        in_offset: 0,
        out_stride: stride,
        out_offset: offset,
        eps,
      },
      // A run over the wrong kind of rows would write too few.
      dims: variant.SAMPLED ? { samples: tokens, tokens: 1 } : { tokens, samples: 1 },
      buffers: { weight, samples: samplesOf(picked), x, y },
    },
    ['y'],
  );
  const got = new Float32Array(out['y'] as ArrayBuffer);
  const all = reference(x, weight, { rows: tokens, cols: columns, eps });
  for (let t = 0; t < tokens; t++) {
    const from = (variant.SAMPLED ? (picked[t] as number) : t) * columns;
    expectClose(
      got.subarray(t * stride + offset, t * stride + offset + columns),
      all.subarray(from, from + columns),
      tolerance,
      `${tokens} x ${columns}, row ${t}`,
    );
  }
  const inside = (word: number) => {
    const column = (word % stride) - offset;
    return word < tokens * stride && column >= 0 && column < columns;
  };
  expectUntouched(out['y'] as ArrayBuffer, y, inside, `${tokens} x ${columns}`);
}

/** Heads inside a wider row, normalized in place. */
async function runHeads(variant: RmsNormVariant, seed: number): Promise<void> {
  const eps = 1e-6;
  for (const { tokens, columns, heads, first, all } of [
    { tokens: 1, columns: 8, heads: 1, first: 0, all: 1 },
    { tokens: 3, columns: 64, heads: 5, first: 2, all: 9 },
    { tokens: 2, columns: 128, heads: 16, first: 0, all: 32 },
    { tokens: 5, columns: 40, heads: 2, first: 7, all: 9 },
  ]) {
    const next = random(seed + columns);
    const y = randomValues(tokens * all * columns, next);
    const weight = randomValues(columns, next);
    const stride = all * columns;
    // The second of three tokens is alone in its tile, so attention handles it.
    const marks = Uint32Array.from({ length: tokens * 4 }, (_, word) =>
      word % 12 === 7 ? singleTileFlag : 0,
    );
    const skipped = (token: number) => variant.PROMPT && token % 3 === 1;
    const out = await harness.run(
      rmsNorm,
      variant,
      {
        params: {
          columns,
          heads,
          in_stride: stride,
          in_offset: first * columns,
          out_stride: stride,
          out_offset: first * columns,
          eps,
        },
        dims: { tokens, wideTiles: 1 },
        buffers: { weight, samples: samplesOf([0]), y, token: marks },
      },
      ['y'],
    );
    const what = `${heads} of ${all} heads of ${columns}`;
    const expected = reference(y, weight, { rows: tokens * all, cols: columns, eps });
    const got = new Float32Array(out['y'] as ArrayBuffer);
    const inside = (word: number) => {
      const head = Math.floor((word % stride) / columns);
      return head >= first && head < first + heads && !skipped(Math.floor(word / stride));
    };
    for (let head = 0; head < tokens * all; head++) {
      if (!inside(head * columns)) continue;
      const at = head * columns;
      expectClose(got.subarray(at, at + columns), expected.subarray(at, at + columns), tolerance, what);
    }
    expectUntouched(out['y'] as ArrayBuffer, y, inside, what);
  }
}

describe('rms_norm equals the oracle', () => {
  for (const variant of selectVariants(rmsNorm.variants)) {
    it(variantName(variant), async () => {
      if (variant.IN_PLACE) return runHeads(variant, 1);
      await runRows(variant, { tokens: 1, columns: 1 }, 1);
      await runRows(variant, { tokens: 1, columns: 32 }, 2);
      await runRows(variant, { tokens: 57, columns: 1001 }, 3);
      await runRows(variant, { tokens: 2, columns: 4096 }, 4);
      // Only eps keeps these from a division by zero.
      await runRows(variant, { tokens: 3, columns: 64, size: 0 }, 5);
      await runRows(variant, { tokens: 3, columns: 64, size: 1e-3, eps: 1e-2 }, 6);
      // Squares that barely fit into f32.
      await runRows(variant, { tokens: 3, columns: 64, size: 1e15 }, 7);
    });
  }
});
