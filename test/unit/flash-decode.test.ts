import { expect, it } from 'vitest';
import { chooseFlashDecode } from '../../kernels/attention-choices.ts';

const caps = { subgroupSize: 32, f16: true, software: false };
const shapeOf = (headDim: number, lanes = 32) => {
  const variant = chooseFlashDecode({ ...caps, subgroupSize: lanes }, { heads: 4, kvHeads: 1, headDim }, {});
  return variant && [variant.KEY_LANES, variant.SUBS];
};

it.each([
  [32, 64, [8, 8]],
  [32, 96, [4, 8]],
  [32, 128, [16, 8]],
  [32, 256, [32, 4]],
  [32, 512, [32, 2]],
  [64, 128, [16, 4]],
  [8, 512, [8, 2]],
])('%i lanes share a head of %i', (lanes, headDim, shape) => {
  expect(shapeOf(headDim, lanes)).toEqual(shape);
});

it('leaves heads that lanes cannot share to the other kernel', () => {
  // 125 groups of eight elements are odd: one lane would have all of them, in unrolled loops.
  for (const headDim of [1000, 72, 4]) expect(shapeOf(headDim)).toBeUndefined();
  expect(
    chooseFlashDecode({ ...caps, software: true }, { heads: 4, kvHeads: 1, headDim: 64 }, {}),
  ).toBeUndefined();
  expect(shapeOf(64, 4)).toBeUndefined();
});
