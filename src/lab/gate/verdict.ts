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
  readonly maxPart: number;
  /** Largest relative error. The divisor is at least a millionth of the largest expected magnitude. */
  readonly maxRel: number;
  /** Fraction of the elements that are near their expected value; see `nearFactor`. */
  readonly matchedRatio: number;
  /** Index of the largest error, or of the first element that is wrongly non-finite. */
  readonly worst: number;
  /** The row, or group of short rows, with the largest NMSE. `first` is the index of its first element. */
  readonly worstRow: { readonly first: number; readonly nmse: number };
  /** Index of the first element that is finite but should not be, or the reverse; -1 if there is none. */
  readonly notFinite: number;
  readonly compared: number;
}

/**
 * An element is near its expected value when the error is at most this factor times the square root of the tolerated
 * NMSE, relative to its magnitude or to the RMS of its row. Of normally distributed errors at the NMSE limit, one in
 * 16,000 is larger.
 */
const nearness = 4;
/** Short rows are grouped to at least this many elements, because the power of a single row can be close to 0. */
const leastGroup = 16;
/** Minimum power of a row relative to the mean: a row a millionth the size of the others has their rounding errors. */
const leastPower = 1e-12;
/**
 * The NMSE of a single row may exceed the tolerated mean by this factor. Errors of correct kernels differ between rows
 * because of cancellation and outliers, at most by 4 in quantized rows of 16 elements. A row that skips a hundredth of
 * the work has an NMSE of 1e-2, twice this limit at the widest tolerance.
 */
export const rowFactor = 10;

interface Group {
  readonly first: number;
  readonly end: number;
  readonly power: number;
  readonly error: number;
  readonly count: number;
}

/** @param rowLength elements in a row: rows are also judged one by one, so that the mean cannot hide skipped work */
export function measure(
  { values: expected, kept, open }: ExpectedOutput,
  got: ArrayLike<number>,
  rowLength: number,
  tolerance: Pick<Tolerance, 'nmse'>,
): OutputErrors {
  const counts = (i: number) => !(kept?.[i] || open?.[i]);
  let greatest = 0;
  for (let i = 0; i < expected.length; i++) {
    const magnitude = Math.abs(expected[i] as number);
    if (counts(i) && magnitude > greatest && magnitude < Number.POSITIVE_INFINITY) greatest = magnitude;
  }
  let maxAbs = 0;
  let maxRel = 0;
  let worst = -1;
  let notFinite = -1;
  const groups: Group[] = [];
  let group = { first: 0, power: 0, error: 0, count: 0 };
  for (let i = 0; i < expected.length; i++) {
    if (i % rowLength === 0 && group.count >= leastGroup) {
      groups.push({ ...group, end: i });
      group = { first: i, power: 0, error: 0, count: 0 };
    }
    if (!counts(i)) continue;
    const e = expected[i] as number;
    const g = got[i] as number;
    if (!Number.isFinite(e) || !Number.isFinite(g)) {
      if (!Object.is(e, g) && notFinite < 0) notFinite = i;
      continue;
    }
    const off = Math.abs(g - e);
    if (off > maxAbs || worst < 0) {
      maxAbs = off;
      worst = i;
    }
    maxRel = Math.max(maxRel, off === 0 ? 0 : off / Math.max(Math.abs(e), greatest * 1e-6));
    group.power += e * e;
    group.error += off * off;
    group.count += 1;
  }
  const last = group.count < leastGroup ? groups.pop() : undefined;
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
  let near = 0;
  for (const { first, end, power, error, count } of groups) {
    const nmse = ratio(error, Math.max(power, leastPower * meanPower * count));
    if (nmse > worstRow.nmse) worstRow = { first, nmse };
    const rms = Math.sqrt(Math.max(power / Math.max(1, count), leastPower * meanPower));
    const reach = nearness * Math.sqrt(tolerance.nmse);
    for (let i = first; i < end; i++) {
      if (!counts(i)) continue;
      const e = expected[i] as number;
      const g = got[i] as number;
      if (Object.is(e, g) || Math.abs(g - e) <= reach * Math.max(Math.abs(e), rms)) near += 1;
    }
  }
  const compared = expected.reduce((count, _, i) => count + (counts(i) ? 1 : 0), 0);
  return {
    nmse: notFinite >= 0 ? Number.POSITIVE_INFINITY : ratio(total.error, total.power),
    maxAbs: notFinite >= 0 ? Number.POSITIVE_INFINITY : maxAbs,
    maxPart: notFinite >= 0 ? Number.POSITIVE_INFINITY : ratio(maxAbs, greatest),
    maxRel: notFinite >= 0 ? Number.POSITIVE_INFINITY : maxRel,
    matchedRatio: compared === 0 ? 1 : near / compared,
    worst: notFinite >= 0 ? notFinite : Math.max(0, worst),
    worstRow,
    notFinite,
    compared,
  };
}

/** The plain error when all expected values are 0. */
const ratio = (error: number, by: number): number => (by > 0 ? error / by : error);

/** Texts for the measures that exceed the tolerance. */
export function faultsOf(errors: OutputErrors, tolerance: Tolerance): string[] {
  const faults: string[] = [];
  if (!(errors.nmse <= tolerance.nmse)) faults.push(`NMSE ${brief(errors.nmse)} > ${brief(tolerance.nmse)}`);
  if (!(errors.maxPart <= tolerance.max_abs)) {
    faults.push(
      `largest error ${brief(errors.maxPart)} relative to the largest value > ${brief(tolerance.max_abs)}`,
    );
  }
  if (!(errors.matchedRatio >= tolerance.matched_ratio)) {
    faults.push(
      `${percent(errors.matchedRatio)} of the elements match, at least ${percent(tolerance.matched_ratio)} must`,
    );
  }
  return faults;
}

export const rowFails = (errors: OutputErrors, tolerance: Tolerance): boolean =>
  errors.worstRow.nmse > rowFactor * tolerance.nmse;

/** A value with up to 6 significant digits, for texts. */
export function short(value: number | undefined): string {
  if (value === undefined) return 'nothing';
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(6)));
}

/** An error measure with 3 significant digits. */
export const brief = (value: number): string => String(Number(value.toPrecision(3)));

const percent = (part: number): string => `${brief(100 * part)} %`;

/**
 * Whether a result is much less precise than the built-in kernel and than the rounding of the op explains, which
 * suggests arithmetic in a smaller type. Rounding once to f16 gives an NMSE of 4e-8, f32 arithmetic below 1e-12. Ops
 * whose activations may be rounded to 8 bits are not judged.
 */
export function isCoarse(nmse: number, builtinNmse: number | undefined, exactness: string): boolean {
  const expectedOf: Readonly<Record<string, number>> = { f32: 1e-11, f16: 5e-7 };
  const floor = expectedOf[exactness];
  return floor !== undefined && nmse > Math.max(floor, 100 * (builtinNmse ?? 0));
}
