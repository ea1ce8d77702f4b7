import { beforeAll, describe, expect, it } from 'vitest';
import { weightFormats } from '../../../kernels/formats.ts';
import { positionEmbed, secondSegmentFlag } from '../../../kernels/position-embed.ts';
import { dequantize, quantize } from '../../../kernels/reference/index.ts';
import { repack } from '../../../src/engine/loading/repack.ts';
import {
  expectClose,
  expectUntouched,
  type KernelHarness,
  kernelHarness,
  random,
  randomValues,
} from '../../support/kernel-harness.ts';

let harness: KernelHarness;
beforeAll(async () => {
  harness = await kernelHarness();
});

const columns = 96;
const blocks = columns / 32;
const tokens = 37;
const next = random(1);
const y = randomValues((tokens + 1) * columns, next);
const tokenTypes = randomValues(2 * columns, next);
const positions = Array.from({ length: tokens }, (_, t) => (t * 7) % 50);
const isSecond = (t: number) => t >= 20;
/** [id, position, slot, flags] each; the position and one bit of the flags matter. */
const token = Uint32Array.from({ length: tokens * 4 }, (_, word) => {
  const t = word >> 2;
  return [0x7fffffff, positions[t] as number, 0x7fffffff, (isSecond(t) ? secondSegmentFlag : 0) | (t & 1)][
    word % 4
  ] as number;
});
/** An element of the token's type: of the first row, unless there are two. */
const typeOf = (types: number, t: number, c: number) =>
  tokenTypes[(types > 1 && isSecond(t) ? columns : 0) + c] as number;

function expectRows(out: ArrayBuffer, added: (t: number, c: number) => number): void {
  const expected = y
    .subarray(0, tokens * columns)
    .map((value, at) => value + added(Math.floor(at / columns), at % columns));
  const got = new Float32Array(out).subarray(0, tokens * columns);
  expectClose(got, expected, { nmse: 1e-13, maxAbs: 1e-6 }, 'rows');
  expectUntouched(out, y, (word) => word < tokens * columns, 'position_embed');
}

describe('position_embed equals the oracle', () => {
  it.each([
    ['F32', 1],
    ['F16', 2],
    ['Q8_0', 2],
  ] as const)('a table of %s in two parts, and %i token types', async (type, types) => {
    const raw = quantize(type, randomValues(50 * columns, random(2)));
    const table = dequantize(type, raw, 50 * columns);
    const variant = positionEmbed.variants.find(
      (one) => one.POSITIONS && one.FORMAT === weightFormats[type].name,
    );
    expect(variant).toBeDefined();
    let held: Float32Array<ArrayBuffer> = y;
    let out = new ArrayBuffer();
    for (const [index, [first, rows]] of (
      [
        [0, 20],
        [20, 30],
      ] as const
    ).entries()) {
      const rowBytes = raw.length / 50;
      const part = raw.slice(first * rowBytes, (first + rows) * rowBytes);
      const { quants, scales = new Uint16Array(8) } = repack(type, part, rows, columns);
      const buffers = {
        y: held,
        token_type: tokenTypes,
        token,
        quants: quants.slice(),
        scales: scales.slice(),
      };
      const params = { rows, first_row: first, blocks, token_types: index === 0 ? types : 0 };
      const made = await harness.run(
        positionEmbed,
        variant as NonNullable<typeof variant>,
        { params, dims: { tokens }, buffers },
        ['y'],
      );
      out = made['y'] as ArrayBuffer;
      held = new Float32Array(out);
    }
    expectRows(
      out,
      (t, c) => typeOf(types, t, c) + (table[(positions[t] as number) * columns + c] as number),
    );
  });

  it.each([1, 2])('without a table: %i token types only', async (types) => {
    const variant = { POSITIONS: false, FORMAT: '', WG: 64 };
    const params = { rows: 0, first_row: 0, blocks, token_types: types };
    const buffers = { y, token_type: tokenTypes, token };
    const out = await harness.run(positionEmbed, variant, { params, dims: { tokens }, buffers }, ['y']);
    expectRows(out['y'] as ArrayBuffer, (t, c) => typeOf(types, t, c));
  });
});
