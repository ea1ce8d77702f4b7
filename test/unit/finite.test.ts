/** Finding infinite and NaN values in the bytes of a tensor. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { firstNonFinite } from '../../src/engine/loading/finite.ts';
import { tensorTypes, type TensorType } from '../../src/engine/formats/model-file.ts';

/** Bits of a float with all exponent bits set: infinities and NaN. */
const broken: Readonly<Record<'F32' | 'F16' | 'BF16', readonly number[]>> = {
  F32: [0x7f80_0000, 0xff80_0000, 0x7fc0_0000, 0xffff_ffff, 0x7f80_0001],
  F16: [0x7c00, 0xfc00, 0x7e00, 0xffff, 0x7c01],
  BF16: [0x7f80, 0xff80, 0x7fc0, 0xffff, 0x7f81],
};
/** The largest and smallest finite numbers of either sign, next to infinity and zero. */
const whole: typeof broken = {
  F32: [0x7f7f_ffff, 0xff7f_ffff, 0x0000_0000, 0x8000_0000, 0x007f_ffff, 0x3f80_0000],
  F16: [0x7bff, 0xfbff, 0x0000, 0x8000, 0x03ff, 0x3c00],
  BF16: [0x7f7f, 0xff7f, 0x0000, 0x8000, 0x007f, 0x3f80],
};

describe.each(['F32', 'F16', 'BF16'] as const)('%s', (type) => {
  const { blockBytes } = tensorTypes[type];

  it('is found when all exponent bits are set, at any position and next to any values', () => {
    const numbers = fc.array(fc.constantFrom(...whole[type]), { minLength: 1, maxLength: 3000 });
    const place = fc.option(fc.tuple(fc.nat(), fc.constantFrom(...broken[type])));
    fc.assert(
      fc.property(numbers, fc.integer({ min: 0, max: 5 }), place, (values, offset, damage) => {
        const buffer = new ArrayBuffer(offset + values.length * blockBytes);
        const view = new DataView(buffer, offset);
        const write = (at: number, bits: number) =>
          blockBytes === 4 ? view.setUint32(4 * at, bits, true) : view.setUint16(2 * at, bits, true);
        for (const [at, bits] of values.entries()) write(at, bits);
        const at = damage === null ? -1 : damage[0] % values.length;
        if (damage) write(at, damage[1]);
        expect(firstNonFinite(type, new Uint8Array(buffer, offset))).toBe(at);
      }),
    );
  });
});

describe('quantized types', () => {
  const types = Object.keys(tensorTypes).filter((type): type is TensorType => !(type in broken));
  it.each(types)('%s: a block with NaN scales is found', (type) => {
    const { blockBytes } = tensorTypes[type];
    for (const offset of [0, 1, 2]) {
      const bytes = new Uint8Array(offset + 40 * blockBytes).subarray(offset);
      expect(firstNonFinite(type, bytes)).toBe(-1);
      bytes.fill(0xff, 33 * blockBytes, 34 * blockBytes);
      expect(firstNonFinite(type, bytes)).toBe(33);
    }
  });
});
