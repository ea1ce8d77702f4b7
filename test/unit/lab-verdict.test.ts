import { describe, expect, it } from 'vitest';
import {
  describeExcess,
  isLowPrecision,
  measureErrors,
  isRowOverLimit,
  maxRowNmseFactor,
} from '../../src/lab/gate/output-errors.ts';

const tolerance = { nmse: 1e-7, max_abs: 1e-3, matched_ratio: 0.99 };
const rows = 8;
const columns = 64;
const expected = Float64Array.from({ length: rows * columns }, (_, i) => Math.sin(i * 1.7) * 2);
const judge = (got: ArrayLike<number>, more: { preserved?: Uint8Array; unspecified?: Uint8Array } = {}) =>
  measureErrors({ values: expected, ...more }, got, columns, tolerance);
const changed = (index: number, value: number) => {
  const got = Float32Array.from(expected);
  got[index] = value;
  return got;
};

describe('errors of an output', () => {
  it('of f32 rounding are far below every tolerance', () => {
    const errors = judge(Float32Array.from(expected));
    expect(errors.nmse).toBeLessThan(1e-14);
    expect(errors).toMatchObject({ matchedRatio: 1, nonFiniteIndex: -1, compared: rows * columns });
    expect(describeExcess(errors, tolerance)).toEqual([]);
    expect(isRowOverLimit(errors, tolerance)).toBe(false);
  });

  it('are those of the definition', () => {
    const errors = measureErrors({ values: Float64Array.of(3, 4) }, [3, 4.5], 2, tolerance);
    expect(errors).toMatchObject({
      nmse: 0.25 / 25,
      maxAbs: 0.5,
      maxAbsRelative: 0.125,
      maxRel: 0.125,
      worstIndex: 1,
    });
    expect(errors.matchedRatio).toBe(0.5);
  });

  it.each([Number.NaN, Number.POSITIVE_INFINITY])('%s is never near a finite value', (value) => {
    const errors = judge(changed(130, value));
    expect(errors).toMatchObject({ nonFiniteIndex: 130, worstIndex: 130, nmse: Number.POSITIVE_INFINITY });
    expect(describeExcess(errors, tolerance)).not.toEqual([]);
  });

  it('a finite value is wrong where infinity or NaN is expected, which only match themselves', () => {
    const values = Float64Array.of(1, Number.POSITIVE_INFINITY, Number.NaN);
    expect(
      measureErrors({ values }, [1, Number.POSITIVE_INFINITY, Number.NaN], 3, tolerance).nonFiniteIndex,
    ).toBe(-1);
    expect(measureErrors({ values }, [1, 3e38, Number.NaN], 3, tolerance).nonFiniteIndex).toBe(1);
    expect(
      measureErrors({ values }, [1, Number.NEGATIVE_INFINITY, Number.NaN], 3, tolerance).nonFiniteIndex,
    ).toBe(1);
    expect(measureErrors({ values }, [1, Number.POSITIVE_INFINITY, 0], 3, tolerance).nonFiniteIndex).toBe(2);
  });

  it('exclude preserved and unspecified elements', () => {
    const only = (index: number) => new Uint8Array(rows * columns).fill(1, index, index + 1);
    expect(describeExcess(judge(changed(9, 100)), tolerance)).not.toEqual([]);
    expect(describeExcess(judge(changed(9, 100), { unspecified: only(9) }), tolerance)).toEqual([]);
    expect(describeExcess(judge(changed(9, Number.NaN), { preserved: only(9) }), tolerance)).toEqual([]);
  });

  it('of a single element fail by their size, although the mean hides them', () => {
    const values = Float64Array.from({ length: 1 << 20 }, (_, i) => Math.sin(i * 1.7) * 2);
    const got = Float32Array.from(values);
    got[77_777] = (values[77_777] as number) + 0.1;
    const errors = measureErrors({ values }, got, 1 << 20, tolerance);
    expect(errors.nmse).toBeLessThan(tolerance.nmse);
    expect(describeExcess(errors, tolerance)).toEqual([expect.stringContaining('largest error')]);
  });
});

describe('rows', () => {
  it('a small row that is not computed fails despite large rows', () => {
    const values = expected.map((value, i) => (Math.floor(i / columns) === 5 ? value * 1e-5 : value));
    const got = Float32Array.from(values);
    got.fill(0, 5 * columns, 6 * columns);
    const errors = measureErrors({ values }, got, columns, tolerance);
    expect(errors.nmse).toBeLessThan(tolerance.nmse);
    expect(errors.worstRow).toEqual({ first: 5 * columns, nmse: 1 });
    expect(isRowOverLimit(errors, tolerance)).toBe(true);
  });

  it('a row that skips a little work fails at the widest tolerance', () => {
    const wide = { ...tolerance, nmse: 5e-4 };
    // An error of a hundredth of the power, in one of many rows.
    const values = Float64Array.from({ length: 1000 * columns }, (_, i) => Math.sin(i * 1.7));
    const got = Float32Array.from(values, (value, i) => (i < columns ? value * 0.9 : value));
    const errors = measureErrors({ values }, got, columns, wide);
    expect(errors.nmse).toBeLessThan(wide.nmse);
    expect(errors.worstRow.nmse).toBeGreaterThan(maxRowNmseFactor * wide.nmse);
  });

  it('rows shorter than 16 elements are grouped', () => {
    const values = Float64Array.from({ length: 40 }, (_, i) => (i === 7 ? 1e-6 : 1));
    const got = Float32Array.from(values);
    got[7] = 2e-6;
    const errors = measureErrors({ values }, got, 1, tolerance);
    expect(isRowOverLimit(errors, tolerance)).toBe(false);
  });

  it('a row of zeros may have the rounding error of the other rows, not more', () => {
    const values = expected.map((value, i) => (i < columns ? 0 : value));
    const near = Float32Array.from(values, (value, i) => (i < columns ? 1e-10 : value));
    expect(isRowOverLimit(measureErrors({ values }, near, columns, tolerance), tolerance)).toBe(false);
    const far = Float32Array.from(values, (value, i) => (i < columns ? 1e-4 : value));
    expect(isRowOverLimit(measureErrors({ values }, far, columns, tolerance), tolerance)).toBe(true);
  });
});

describe('low-precision results', () => {
  it('an f32 op in f16 arithmetic is distinguished from one in f32', () => {
    const halves = Float32Array.from(new Float16Array(Float32Array.from(expected)));
    const { nmse } = judge(halves);
    expect(nmse).toBeLessThan(tolerance.nmse);
    expect(isLowPrecision(nmse, 1e-14, 'f32')).toBe(true);
    expect(isLowPrecision(judge(Float32Array.from(expected)).nmse, 1e-14, 'f32')).toBe(false);
  });

  it('no warning if as precise as the built-in kernel, or if 8-bit rounding is allowed', () => {
    expect(isLowPrecision(4e-8, 1e-9, 'f32')).toBe(false);
    expect(isLowPrecision(3e-5, 1e-14, 'quantised')).toBe(false);
  });
});
