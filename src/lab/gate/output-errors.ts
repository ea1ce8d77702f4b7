/** Error measures of an output relative to the oracle. */
import type { ExpectedOutput, Tolerance } from '../types.ts';

/** Errors of one output of one case. Preserved, unspecified and expected non-finite elements are excluded. */
export interface OutputErrors {
  /**
   * Normalized mean squared error: sum of squared errors divided by the sum of squared expected values. Infinite when
   * an element is wrongly non-finite.
   */
  readonly nmse: number;
  readonly maxAbs: number;
  /** `maxAbs` divided by the largest expected magnitude. */
  readonly maxAbsRelative: number;
  /** Largest relative error. The divisor is at least a millionth of the largest expected magnitude. */
  readonly maxRel: number;
  /** Fraction of the elements that are near their expected value; see `nearFactor`. */
  readonly matchedRatio: number;
  /** Index of the largest error, or of the first element that is wrongly non-finite. */
  readonly worstIndex: number;
  /** The row, or group of short rows, with the largest NMSE. `first` is the index of its first element. */
  readonly worstRow: { readonly first: number; readonly nmse: number };
  /** Index of the first element that is finite but should not be, or the reverse; -1 if there is none. */
  readonly nonFiniteIndex: number;
  readonly compared: number;
}

/**
 * An element is near its expected value when the error is at most this factor times the square root of the tolerated
 * NMSE, relative to its magnitude or to the RMS of its row. Of normally distributed errors at the NMSE limit, one in
 * 16,000 is larger.
 */
const nearFactor = 4;
/** Short rows are grouped to at least this many elements, because the power of a single row can be close to 0. */
const minGroup = 16;
/** Minimum power of a row relative to the mean: a row a millionth the size of the others has their rounding errors. */
const minPower = 1e-12;
/**
 * The NMSE of a single row may exceed the tolerated mean by this factor. Errors of correct kernels differ between rows
 * because of cancellation and outliers, at most by 4 in quantized rows of 16 elements. A row that skips a hundredth of
 * the work has an NMSE of 1e-2, twice this limit at the widest tolerance.
 */
export const maxRowNmseFactor = 10;

interface RowGroup {
  readonly first: number;
  readonly end: number;
  readonly power: number;
  readonly error: number;
  readonly count: number;
}

/** @param rowLength elements in a row: rows are also judged one by one, so that the mean cannot hide skipped work */
export function measureErrors(
  { values: expected, preserved, unspecified }: ExpectedOutput,
  got: ArrayLike<number>,
  rowLength: number,
  tolerance: Pick<Tolerance, 'nmse'>,
): OutputErrors {
  const isCompared = (i: number) => !(preserved?.[i] || unspecified?.[i]);
  let maxMagnitude = 0;
  for (let i = 0; i < expected.length; i++) {
    const magnitude = Math.abs(expected[i] as number);
    if (isCompared(i) && magnitude > maxMagnitude && magnitude < Number.POSITIVE_INFINITY)
      maxMagnitude = magnitude;
  }
  let maxAbs = 0;
  let maxRel = 0;
  let worstIndex = -1;
  let nonFiniteIndex = -1;
  const groups: RowGroup[] = [];
  let group = { first: 0, power: 0, error: 0, count: 0 };
  for (let i = 0; i < expected.length; i++) {
    if (i % rowLength === 0 && group.count >= minGroup) {
      groups.push({ ...group, end: i });
      group = { first: i, power: 0, error: 0, count: 0 };
    }
    if (!isCompared(i)) continue;
    const e = expected[i] as number;
    const g = got[i] as number;
    if (!Number.isFinite(e) || !Number.isFinite(g)) {
      if (!Object.is(e, g) && nonFiniteIndex < 0) nonFiniteIndex = i;
      continue;
    }
    const difference = Math.abs(g - e);
    if (difference > maxAbs || worstIndex < 0) {
      maxAbs = difference;
      worstIndex = i;
    }
    maxRel = Math.max(maxRel, difference === 0 ? 0 : difference / Math.max(Math.abs(e), maxMagnitude * 1e-6));
    group.power += e * e;
    group.error += difference * difference;
    group.count += 1;
  }
  const last = group.count < minGroup ? groups.pop() : undefined;
  groups.push({
    first: last?.first ?? group.first,
    end: expected.length,
    power: (last?.power ?? 0) + group.power,
    error: (last?.error ?? 0) + group.error,
    count: (last?.count ?? 0) + group.count,
  });
  const total = groups.reduce(
    (sum, { power, error, count }) => ({
      power: sum.power + power,
      error: sum.error + error,
      count: sum.count + count,
    }),
    { power: 0, error: 0, count: 0 },
  );
  const meanPower = total.power / Math.max(1, total.count);
  let worstRow = { first: 0, nmse: 0 };
  let nearCount = 0;
  for (const { first, end, power, error, count } of groups) {
    const nmse = ratio(error, Math.max(power, minPower * meanPower * count));
    if (nmse > worstRow.nmse) worstRow = { first, nmse };
    const rms = Math.sqrt(Math.max(power / Math.max(1, count), minPower * meanPower));
    const tolerated = nearFactor * Math.sqrt(tolerance.nmse);
    for (let i = first; i < end; i++) {
      if (!isCompared(i)) continue;
      const e = expected[i] as number;
      const g = got[i] as number;
      if (Object.is(e, g) || Math.abs(g - e) <= tolerated * Math.max(Math.abs(e), rms)) nearCount += 1;
    }
  }
  const compared = expected.reduce((count, _, i) => count + (isCompared(i) ? 1 : 0), 0);
  return {
    nmse: nonFiniteIndex >= 0 ? Number.POSITIVE_INFINITY : ratio(total.error, total.power),
    maxAbs: nonFiniteIndex >= 0 ? Number.POSITIVE_INFINITY : maxAbs,
    maxAbsRelative: nonFiniteIndex >= 0 ? Number.POSITIVE_INFINITY : ratio(maxAbs, maxMagnitude),
    maxRel: nonFiniteIndex >= 0 ? Number.POSITIVE_INFINITY : maxRel,
    matchedRatio: compared === 0 ? 1 : nearCount / compared,
    worstIndex: nonFiniteIndex >= 0 ? nonFiniteIndex : Math.max(0, worstIndex),
    worstRow,
    nonFiniteIndex,
    compared,
  };
}

/** The plain error when all expected values are 0. */
const ratio = (error: number, divisor: number): number => (divisor > 0 ? error / divisor : error);

/** Texts for the measures that exceed the tolerance. */
export function describeExcess(errors: OutputErrors, tolerance: Tolerance): string[] {
  const faults: string[] = [];
  if (!(errors.nmse <= tolerance.nmse))
    faults.push(`NMSE ${formatError(errors.nmse)} > ${formatError(tolerance.nmse)}`);
  if (!(errors.maxAbsRelative <= tolerance.max_abs)) {
    faults.push(
      `largest error ${formatError(errors.maxAbsRelative)} relative to the largest value > ${formatError(tolerance.max_abs)}`,
    );
  }
  if (!(errors.matchedRatio >= tolerance.matched_ratio)) {
    faults.push(
      `${formatPercent(errors.matchedRatio)} of the elements match, at least ${formatPercent(tolerance.matched_ratio)} must`,
    );
  }
  return faults;
}

export const isRowOverLimit = (errors: OutputErrors, tolerance: Tolerance): boolean =>
  errors.worstRow.nmse > maxRowNmseFactor * tolerance.nmse;

/** A value with up to 6 significant digits, for texts. */
export function formatValue(value: number | undefined): string {
  if (value === undefined) return 'nothing';
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(6)));
}

/** An error measure with 3 significant digits. */
export const formatError = (value: number): string => String(Number(value.toPrecision(3)));

const formatPercent = (fraction: number): string => `${formatError(100 * fraction)} %`;

/**
 * Whether a result is much less precise than the built-in kernel and than the rounding of the op explains, which
 * suggests arithmetic in a smaller type. Rounding once to f16 gives an NMSE of 4e-8, f32 arithmetic below 1e-12. Ops
 * whose activations may be rounded to 8 bits are not judged.
 */
export function isLowPrecision(nmse: number, builtinNmse: number | undefined, exactness: string): boolean {
  const maxRoundingNmse: Readonly<Record<string, number>> = { f32: 1e-11, f16: 5e-7 };
  const minSuspectNmse = maxRoundingNmse[exactness];
  return minSuspectNmse !== undefined && nmse > Math.max(minSuspectNmse, 100 * (builtinNmse ?? 0));
}
