import { beforeAll, describe, expect, it } from 'vitest';
import { embed } from '../../../kernels/embed.ts';
import { weightFormats } from '../../../kernels/formats.ts';
import { dequantizeRows, embed as reference, type WeightType } from '../../../kernels/reference/index.ts';
import { repack } from '../../../src/engine/loading/repack.ts';
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
import { sampleRows, wholeColumns } from '../../support/random-blocks.ts';
import { isSampleFormat, selectCases } from '../../support/tier.ts';

let harness: KernelHarness;
beforeAll(async () => {
  harness = await kernelHarness();
});

/** Blocks with a minimum: a kernel rounds code * scale - minimum once, the formats' decoders twice. */
const roundedOnce: readonly WeightType[] = ['Q4_1', 'Q5_1', 'Q2_K', 'Q4_K', 'Q5_K'];

/**
 * The sum of a positive and a negative number is +0, and a product with a negative scale is -0. Compilers may replace
 * one by the other, and did for Q3_K and Q6_K on an H200 (2026-11-27).
 */
const withoutSignsOfZero = (values: Float32Array): Float32Array => values.map((value) => value + 0);

function expectRows(type: WeightType, got: Float32Array, expected: Float32Array, maxAbs = 1e-6): void {
  if (!roundedOnce.includes(type)) expect(withoutSignsOfZero(got)).toEqual(withoutSignsOfZero(expected));
  else expectClose(got, expected, { nmse: 1e-14, maxAbs }, type);
}

/** Every nibble in the low and the high half of 16 bytes, in a different order for each `turn`. */
const allPairs = (turn: number): number[] =>
  Array.from({ length: 16 }, (_, i) => ((i * 7 + turn) & 15) | (((i * 5 + 3 * turn) & 15) << 4));

const feedback = 0xffffffff;
const types = Object.keys(weightFormats) as WeightType[];
const variantOf = (type: WeightType, part = 4) => {
  const variant = embed.variants.find((one) => one.FORMAT === weightFormats[type].name && one.PART === part);
  if (!variant) throw new Error(`no variant for ${type}`);
  return variant;
};

interface Table {
  type: WeightType;
  columns: number;
  values: Float32Array;
  /** The buffers of rows [first, first + rows). */
  part(
    first: number,
    rows: number,
  ): { quants: ArrayBufferView<ArrayBuffer>; scales: ArrayBufferView<ArrayBuffer> };
}

function table(type: WeightType, rows: number, columns: number, seed: number, size = 1): Table {
  const raw = sampleRows(type, { rows, columns }, random(seed), size);
  const rowBytes = raw.length / rows;
  return {
    type,
    columns,
    values: dequantizeRows(type, raw, { rows, columns }),
    part(first, count) {
      const { quants, scales = new Uint16Array(8) } = repack(
        type,
        raw.slice(first * rowBytes, (first + count) * rowBytes),
        count,
        columns,
      );
      return { quants: quants.slice(), scales: scales.slice() };
    },
  };
}

/** Runs one part of a table over the tokens; y contains previous values and keeps those of other parts. */
async function runPart(
  from: Table,
  input: {
    ids: readonly number[];
    slots?: readonly number[];
    sampled?: readonly number[];
    first?: number;
    rows: number;
    scale?: number;
    y: Float32Array<ArrayBuffer>;
    part?: number;
    norm?: {
      normWeight: Float32Array;
      squares: Float32Array;
      scaled: Float32Array;
      take(made: { squares: Float32Array; scaled: ArrayBuffer }): void;
    };
  },
): Promise<ArrayBuffer> {
  const { ids, slots = [], sampled = [0], first = 0, rows, scale = 1, y, part = 4, norm } = input;
  const out = await harness.run(
    embed,
    variantOf(from.type, part),
    {
      params: { rows, first_row: first, blocks: from.columns / 32, scale, norm: norm ? 1 : 0 },
      dims: { tokens: ids.length },
      buffers: {
        ...from.part(first, rows),
        token: Uint32Array.from(ids.flatMap((id, t) => [id, 0, slots[t] ?? 0, 0])),
        sampled: Uint32Array.from(sampled),
        y,
        squares: norm?.squares ?? new Float32Array(4),
        norm_weight: norm?.normWeight ?? new Float32Array(4),
        scaled: norm?.scaled ?? new Float32Array(4),
      },
    },
    ['y', 'squares', 'scaled'],
  );
  norm?.take({
    squares: new Float32Array(out['squares'] as ArrayBuffer),
    scaled: out['scaled'] as ArrayBuffer,
  });
  return out['y'] as ArrayBuffer;
}

const rowOf = (y: ArrayBuffer, t: number, columns: number) =>
  new Float32Array(y).slice(t * columns, (t + 1) * columns);

describe('embed equals the oracle', () => {
  for (const type of selectCases(types, (one) => isSampleFormat(weightFormats[one].name))) {
    describe(variantName(variantOf(type)), () => {
      it.each([
        { rows: 1, columns: 32, ids: [0] },
        { rows: 57, columns: 992, ids: [56, 0, 3, 3, 55] },
        { rows: 300, columns: 160, ids: Array.from({ length: 33 }, (_, t) => (t * 97) % 300) },
      ])('bit for bit: $rows x $columns', async ({ rows, columns: minColumns, ids }) => {
        const columns = wholeColumns(type, minColumns);
        const from = table(type, rows, columns, rows);
        const before = poisoned((ids.length + 2) * columns);
        const y = await runPart(from, { ids, rows, y: before });
        const expected = Float32Array.from(reference(ids, from.values, columns));
        expectRows(type, new Float32Array(y, 0, ids.length * columns), expected);
        expectUntouched(y, before, (word) => word < ids.length * columns, 'rows past the last token');
      });

      it('multiplies by the embedding scale', async () => {
        const columns = wholeColumns(type, 64);
        const from = table(type, 5, columns, 2);
        const y = await runPart(from, { ids: [4, 1], rows: 5, scale: 22.5, y: poisoned(2 * columns) });
        const expected = reference([4, 1], from.values, columns);
        expected.forEach((value, i) =>
          expect(new Float32Array(y)[i]).toBeCloseTo(value * 22.5, 4 - Math.log10(22.5)),
        );
      });

      it.each([4, 8, 16, 32])(
        'prepares the next norm: its weight, and the squares of %i columns each',
        async (part) => {
          const [columns, ids] = [wholeColumns(type, 96), [3, 0, 4]];
          const from = table(type, 5, columns, 4);
          const normWeight = randomValues(columns, random(9));
          const rowsOf = reference(ids, from.values, columns).map((value) => value * 3);
          await runPart(from, {
            ids,
            rows: 5,
            scale: 3,
            part,
            y: poisoned(4 * columns),
            norm: {
              normWeight,
              squares: poisoned((4 * columns) / part),
              scaled: poisoned(4 * columns),
              take({ squares, scaled }) {
                const expected = Array.from(
                  rowsOf,
                  (value, i) => value * (normWeight[i % columns] as number),
                );
                expectClose(new Float32Array(scaled), expected, { nmse: 1e-12, maxAbs: 1e-4 }, 'scaled');
                const sums = Array.from({ length: rowsOf.length / part }, (_, p) =>
                  rowsOf.slice(p * part, (p + 1) * part).reduce((sum, value) => sum + value * value, 0),
                );
                expectClose(squares, sums, { nmse: 1e-12, maxAbs: 1e-3 }, 'squares');
                expectUntouched(scaled, poisoned(4 * columns), (word) => word < 3 * columns, 'scaled');
              },
            },
          });
        },
      );

      it('a table in parts: each part fills the rows of its own tokens and leaves the others unchanged', async () => {
        const [rows, columns, split] = [50, wholeColumns(type, 64), 19];
        const ids = [18, 19, 49, 0, 20, feedback, feedback];
        const slots = [0, 0, 0, 0, 0, 1, 2];
        const sampled = [9, 18, 19];
        const from = table(type, rows, columns, 3);
        const meant = ids.map((id, t) => (id === feedback ? (sampled[slots[t] ?? 0] ?? 0) : id));
        const before = poisoned(ids.length * columns);
        const lower = await runPart(from, { ids, slots, sampled, rows: split, y: before });
        expectUntouched(
          lower,
          before,
          (word) => (meant[Math.floor(word / columns)] ?? 0) < split,
          'the lower part',
        );
        const y = await runPart(from, {
          ids,
          slots,
          sampled,
          first: split,
          rows: rows - split,
          y: new Float32Array(lower),
        });
        const expected = Float32Array.from(reference(meant, from.values, columns));
        expectRows(type, new Float32Array(y, 0, ids.length * columns), expected);
      });
    });
  }

  it('a feedback id is the token that the slot sampled last', async () => {
    const from = table('Q8_0', 20, 32, 5);
    const y = await runPart(from, {
      ids: [feedback, 3, feedback],
      slots: [2, 0, 0],
      sampled: [7, 8, 19],
      rows: 20,
      y: poisoned(96),
    });
    const expected = reference([19, 3, 7], from.values, 32);
    for (let t = 0; t < 3; t++) {
      expect(rowOf(y, t, 32)).toEqual(Float32Array.from(expected.slice(t * 32, (t + 1) * 32)));
    }
  });

  it('decodes MXFP4 with every kind of exponent', async () => {
    // From the smallest exponent whose half is normal to the largest whose values are all finite.
    const exponents = [2, 3, 64, 126, 127, 128, 200, 252];
    const raw = Uint8Array.from(exponents.flatMap((exponent, row) => [exponent, ...allPairs(row)]));
    const columns = 32;
    const { quants, scales = new Uint32Array(4) } = repack('MXFP4', raw, exponents.length, columns);
    const values = dequantizeRows('MXFP4', raw, { rows: exponents.length, columns });
    const part = () => ({ quants: quants.slice(), scales: scales.slice() });
    const ids = exponents.map((_, row) => row);
    const y = await runPart(
      { type: 'MXFP4', columns, values, part },
      { ids, rows: ids.length, y: poisoned(values.length) },
    );
    expect(new Float32Array(y, 0, values.length)).toEqual(values);
  });

  // A K type's scale is divided by 63 or more, so that of common weights is as small.
  it.each(types.filter((type) => !['F32', 'BF16', 'MXFP4', 'MLC_Q4F32'].includes(type)))(
    'keeps tiny weights: %s with subnormal f16 scales',
    async (type) => {
      const columns = wholeColumns(type, 32);
      const from = table(type, 3, columns, 6, type === 'Q6_K' || type === 'IQ4_XS' ? 2e-4 : 2e-5);
      expect(Math.max(...from.values)).toBeGreaterThan(0);
      const y = await runPart(from, { ids: [0, 1, 2], rows: 3, y: poisoned(3 * columns) });
      expectRows(type, new Float32Array(y, 0, 3 * columns), from.values, 1e-10);
    },
  );
});
