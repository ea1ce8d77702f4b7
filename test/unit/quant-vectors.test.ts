/**
 * Encodings compared with ggml's own tools, bit for bit; `test/fixtures/quants/make.py` explains how the blocks were
 * made.
 */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { quantizers, type QuantizedType } from '../../kernels/quantize/index.ts';
import { dequantize, type WeightType } from '../../kernels/reference/index.ts';
import { tensorTypes } from '../../src/engine/formats/model-file.ts';
import { random, randomValues } from '../support/kernel-harness.ts';

interface Fixture {
  readonly decoded: Readonly<Record<string, { bytes: string; values: string }>>;
  readonly encoded: Readonly<Record<string, string>>;
}
const fixture: Fixture = JSON.parse(
  readFileSync(new URL('../fixtures/quants/blocks.json', import.meta.url), 'utf8'),
);
const bytesOf = (text: string): Uint8Array<ArrayBuffer> => new Uint8Array(Buffer.from(text, 'base64'));
const floatsOf = (text: string): Float32Array<ArrayBuffer> => new Float32Array(bytesOf(text).buffer);

/** Index of the first difference, including -0 and NaN. */
const firstDifference = (got: ArrayLike<number>, expected: ArrayLike<number>): string => {
  for (let i = 0; i < expected.length; i++) {
    if (!Object.is(got[i], expected[i])) return `${i}: expected ${expected[i]}, got ${got[i]}`;
  }
  return got.length === expected.length ? 'none' : `length ${got.length} of ${expected.length}`;
};

describe('dequantize', () => {
  it.each(Object.keys(fixture.decoded))('%s decodes like gguf', (type) => {
    const { bytes = '', values = '' } = fixture.decoded[type] ?? {};
    const expected = floatsOf(values);
    expect(expected.length).toBeGreaterThan(400);
    expect(firstDifference(dequantize(type as WeightType, bytesOf(bytes), expected.length), expected)).toBe(
      'none',
    );
  });

  it('there are vectors for every quantized type of ggml', () => {
    const types = Object.keys(tensorTypes).filter(
      (type) => tensorTypes[type as WeightType].blockElements > 1 && !type.startsWith('MLC'),
    );
    expect(Object.keys(fixture.decoded).sort()).toEqual(types.sort());
  });

  it('MLC_Q4F32: an f32 scale, nibbles in the order of Q4_0, 7 is zero', () => {
    const bytes = new Uint8Array(20).fill(0x77);
    new DataView(bytes.buffer).setFloat32(0, 0.1, true);
    bytes[4] = 0xe0;
    bytes[19] = 0x8f;
    const values = dequantize('MLC_Q4F32', bytes, 32);
    const scale = Math.fround(0.1);
    const expected = [-7, 7, 8, 1, 0].map((code) => Math.fround(code * scale));
    expect([values[0], values[16], values[15], values[31], values[1]]).toEqual(expected);
  });

  it('MLC_Q3F16: an f16 scale, ten 3-bit codes a word from the low bits on, 3 is zero', () => {
    const bytes = new Uint8Array(18);
    const view = new DataView(bytes.buffer);
    view.setUint16(0, 0x3800, true); // 0.5
    for (let word = 0; word < 4; word++) view.setUint32(2 + 4 * word, 0o3333333333, true);
    view.setUint32(2, 0o7333333330, true);
    view.setUint32(14, (0b11 << 30) | 0o6333333331, true); // the upper two bits are unused
    const values = dequantize('MLC_Q3F16', bytes, 40);
    expect([values[0], values[1], values[9], values[30], values[39]]).toEqual([-1.5, 0, 2, -1, 1.5]);
  });
});

describe('quantizers', () => {
  const { values = '', ...encoded } = fixture.encoded;

  it.each(Object.entries(encoded))("%s gives the bytes of ggml's reference quantizer", (type, bytes) => {
    const got = quantizers[type as QuantizedType](floatsOf(values));
    expect(firstDifference(got, bytesOf(bytes))).toBe('none');
  });

  it('there are vectors for every quantizer', () => {
    expect(Object.keys(encoded).sort()).toEqual(Object.keys(quantizers).sort());
  });

  it.each(Object.keys(quantizers) as QuantizedType[])(
    '%s is correct in every block, at any position',
    (type) => {
      const { blockElements, blockBytes } = tensorTypes[type];
      const many = randomValues(5 * blockElements, random(6));
      const together = quantizers[type](many);
      expect(together.length).toBe(5 * blockBytes);
      for (let block = 0; block < 5; block++) {
        const alone = quantizers[type](many.slice(block * blockElements, (block + 1) * blockElements));
        expect(together.slice(block * blockBytes, (block + 1) * blockBytes)).toEqual(alone);
      }
      expect(() => quantizers[type](new Float32Array(blockElements + 1))).toThrow(
        `${type}: expected a multiple of ${blockElements} values, got ${blockElements + 1}`,
      );
    },
  );
});
