import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  bf16FromNumber,
  dequantize,
  f16FromNumber,
  numberFromBf16,
  numberFromF16,
  quantize,
} from '../../kernels/reference/index.ts';

const finite = (limit: number) => fc.float({ min: -limit, max: limit, noNaN: true });
const block = fc.float32Array({ minLength: 32, maxLength: 32, min: -100, max: 100, noNaN: true });
const greatest = (values: Float32Array) => values.reduce((max, value) => Math.max(max, Math.abs(value)), 0);

describe('16-bit floats', () => {
  it('every binary16 pattern survives the way to a number and back', () => {
    for (let bits = 0; bits < 0x10000; bits++) {
      const number = numberFromF16(bits);
      if (Number.isNaN(number)) expect(f16FromNumber(number)).toBe(0x7e00);
      else if (f16FromNumber(number) !== bits) expect.fail(`0x${bits.toString(16)} came back as another`);
    }
  });

  it('known binary16 values', () => {
    const known: [number, number][] = [
      [0, 0x0000],
      [-0, 0x8000],
      [1, 0x3c00],
      [-2, 0xc000],
      [65504, 0x7bff],
      [65519.99, 0x7bff],
      [65520, 0x7c00],
      [-Infinity, 0xfc00],
      [2 ** -14, 0x0400],
      [2 ** -24, 0x0001],
      [2 ** -25, 0x0000], // half of the least step: to even
      [1.5 * 2 ** -24, 0x0002], // a tie between 1 and 2: to even
      [2 ** -14 - 2 ** -26, 0x0400], // a subnormal that rounds up to normal
      [1 + 2 ** -11, 0x3c00], // a tie: to even
      [1 + 3 * 2 ** -11, 0x3c02],
      [2 - 2 ** -12, 0x4000], // carries into the next exponent
    ];
    for (const [value, bits] of known) expect(f16FromNumber(value), String(value)).toBe(bits);
  });

  it('binary16 rounding is to nearest: no neighbour is closer', () => {
    fc.assert(
      fc.property(finite(65504), (value) => {
        const bits = f16FromNumber(value);
        const error = Math.abs(numberFromF16(bits) - value);
        const magnitude = bits & 0x7fff;
        for (const other of [magnitude - 1, magnitude + 1]) {
          if (other < 0 || other >= 0x7c00) continue;
          const distance = Math.abs(numberFromF16(other) - Math.abs(value));
          expect(error).toBeLessThanOrEqual(distance);
          if (error === distance) expect(magnitude % 2).toBe(0);
        }
      }),
      { numRuns: 2000 },
    );
  });

  it('bfloat16 keeps its own patterns and rounds ties to even', () => {
    for (let bits = 0; bits < 0x10000; bits++) {
      const number = numberFromBf16(bits);
      if (Number.isNaN(number)) expect(bf16FromNumber(number)).toBe(0x7fc0);
      else if (bf16FromNumber(number) !== bits) expect.fail(`0x${bits.toString(16)} came back as another`);
    }
    expect(bf16FromNumber(1 + 2 ** -8)).toBe(0x3f80);
    expect(bf16FromNumber(1 + 3 * 2 ** -8)).toBe(0x3f82);
    expect(bf16FromNumber(3.4e38)).toBe(0x7f80);
  });
});

describe('quantize and dequantize', () => {
  it('F32 is exact, F16 and BF16 keep 11 and 8 bits of the significand', () => {
    fc.assert(
      fc.property(fc.float32Array({ min: -1000, max: 1000, noNaN: true, minLength: 1 }), (values) => {
        expect(dequantize('F32', quantize('F32', values), values.length)).toEqual(values);
        const f16 = dequantize('F16', quantize('F16', values), values.length);
        const bf16 = dequantize('BF16', quantize('BF16', values), values.length);
        for (const [i, value] of values.entries()) {
          expect(Math.abs(f16[i]! - value)).toBeLessThanOrEqual(Math.abs(value) * 2 ** -11 + 2 ** -25);
          expect(Math.abs(bf16[i]! - value)).toBeLessThanOrEqual(Math.abs(value) * 2 ** -8 + 2 ** -133);
        }
      }),
    );
  });

  it('Q8_0 is off by at most half a step, and the f16 rounding of the scale', () => {
    fc.assert(
      fc.property(block, (values) => {
        const maxAbs = greatest(values);
        const step = maxAbs / 127;
        const back = dequantize('Q8_0', quantize('Q8_0', values), 32);
        const bound = step * 0.5001 + maxAbs * 2 ** -11 + 127 * 2 ** -25;
        for (const [i, value] of values.entries())
          expect(Math.abs(back[i]! - value)).toBeLessThanOrEqual(bound);
      }),
    );
  });

  it('Q4_0 is off by at most half a step, a whole one at the end that lacks +8', () => {
    fc.assert(
      fc.property(block, (values) => {
        const maxAbs = greatest(values);
        const step = maxAbs / 8;
        const farthest = values.find((value) => Math.abs(value) === maxAbs)!;
        const back = dequantize('Q4_0', quantize('Q4_0', values), 32);
        for (const [i, value] of values.entries()) {
          const lacking = Math.sign(value) === -Math.sign(farthest) && Math.abs(value) > 7.5 * step;
          const bound = step * (lacking ? 1.001 : 0.5001) + maxAbs * 2 ** -11 + 8 * 2 ** -25;
          expect(Math.abs(back[i]! - value)).toBeLessThanOrEqual(bound);
        }
      }),
    );
  });

  it('reads the layout of a Q8_0 block: f16 scale, then 32 signed bytes', () => {
    const bytes = new Uint8Array(34);
    new DataView(bytes.buffer).setUint16(0, 0x3800, true); // 0.5
    bytes[2] = 1;
    bytes[33] = 0x80; // -128
    const values = dequantize('Q8_0', bytes, 32);
    expect([values[0], values[1], values[31]]).toEqual([0.5, 0, -64]);
  });

  it('reads the layout of a Q4_0 block: low nibbles are elements 0..15, high ones 16..31', () => {
    const bytes = new Uint8Array(18).fill(0x88);
    new DataView(bytes.buffer).setUint16(0, 0x4000, true); // 2
    bytes[2] = 0xf0;
    bytes[17] = 0x81;
    const values = dequantize('Q4_0', bytes, 32);
    expect([values[0], values[16], values[15], values[31], values[1]]).toEqual([-16, 14, -14, 0, 0]);
  });

  it('decodes from an odd byte offset', () => {
    const shifted = new Uint8Array(35);
    shifted.set(
      quantize(
        'Q8_0',
        Float32Array.from({ length: 32 }, (_, i) => i),
      ),
      1,
    );
    expect(dequantize('Q8_0', shifted.subarray(1), 32)[31]).toBeCloseTo(31, 1);
  });

  it('refuses partial blocks and bytes that do not fit', () => {
    expect(() => quantize('Q4_0', new Float32Array(33))).toThrow('a multiple of 32 value');
    expect(() => dequantize('Q8_0', new Uint8Array(33), 32)).toThrow('33');
    expect(() => dequantize('Q8_0', new Uint8Array(34), 31)).toThrow(RangeError);
  });
});
