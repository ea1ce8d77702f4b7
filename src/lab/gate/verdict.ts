/** How far an output is from what the oracle expects, in numbers. */
import type { ExpectedOutput, Tolerance } from '../types.ts';

/** The error of one output of one case. Left out: elements that are open or kept, and those expected not to be finite. */
export interface OutputErrors {
  /** Sum of squared errors by the power of what was expected; infinite when an element is not finite. */
  readonly nmse: number;
  readonly maxAbs: number;
  /** `maxAbs` as a part of the greatest expected magnitude. */
  readonly maxPart: number;
  /** Greatest error by the expected value; values below a millionth of the greatest count as that. */
  readonly maxRel: number;
  /** Part of the elements that are near what is expected, see `nearness`. */
  readonly matchedRatio: number;
  /** Element of the greatest error, or the first that is not finite where it should be. */
  readonly worst: number;
  /** The rows (at least `leastGroup` elements) whose own NMSE is greatest. */
  readonly worstRow: { readonly first: number; readonly nmse: number };
  /** First element that is finite where it should not be, or the reverse; -1 when there is none. */
  readonly notFinite: number;
  readonly compared: number;
}

/**
 * An element is near within so many times the root of the tolerated NMSE, by its own magnitude or its row's RMS: of
 * normally distributed errors at the limit of the NMSE, one in sixteen thousand is farther off.
 */
const nearness = 4;
/** Short rows count together up to so many elements: the power of a single one may be next to nothing. */
const leastGroup = 16;
/** A row that should be a millionth of the others in size has the error of its neighbours' rounding. */
const leastPower = 1e-12;
/**
 * A row's own NMSE may be so many times the tolerated mean. Errors of honest kernels differ by row because rows
 * differ in cancellation and in outliers (four times at most in rows of 16 elements, quantised); a row of which a
 * hundredth of the work is left out is off by 1e-2, twice this limit at the widest tolerance there is.
 */
export const rowFactor = 10;

interface Group {
  readonly first: number;
  readonly end: number;
  readonly power: number;
  readonly error: number;
  readonly count: number;
}

/** @param rowLength elements of a row of the output; skipped work cannot hide in the mean of other rows */
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

/** Where nothing but zeros was expected, the error itself. */
const ratio = (error: number, by: number): number => (by > 0 ? error / by : error);

/** Why errors are more than is tolerated, in words; empty when they are not. */
export function faultsOf(errors: OutputErrors, tolerance: Tolerance): string[] {
  const faults: string[] = [];
  if (!(errors.nmse <= tolerance.nmse)) faults.push(`NMSE ${brief(errors.nmse)} > ${brief(tolerance.nmse)}`);
  if (!(errors.maxPart <= tolerance.max_abs)) {
    faults.push(
      `greatest error ${brief(errors.maxPart)} of the greatest value > ${brief(tolerance.max_abs)}`,
    );
  }
  if (!(errors.matchedRatio >= tolerance.matched_ratio)) {
    faults.push(
      `${percent(errors.matchedRatio)} of the elements match, ${percent(tolerance.matched_ratio)} must`,
    );
  }
  return faults;
}

export const rowFails = (errors: OutputErrors, tolerance: Tolerance): boolean =>
  errors.worstRow.nmse > rowFactor * tolerance.nmse;

/** Few digits, for texts. */
export function short(value: number | undefined): string {
  if (value === undefined) return 'nothing';
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(6)));
}

/** Of errors the first digits tell enough. */
export const brief = (value: number): string => String(Number(value.toPrecision(3)));

const percent = (part: number): string => `${brief(100 * part)} %`;

/**
 * Whether a result is much coarser than the built-in's and than what the op's own rounding explains: arithmetic in a
 * smaller type. Rounding once to f16 gives an NMSE of 4e-8, f32 arithmetic below 1e-12; where activations may be
 * rounded to 8 bits there is nothing to suspect.
 */
export function isCoarse(nmse: number, builtinNmse: number | undefined, exactness: string): boolean {
  const expectedOf: Readonly<Record<string, number>> = { f32: 1e-11, f16: 5e-7 };
  const floor = expectedOf[exactness];
  return floor !== undefined && nmse > Math.max(floor, 100 * (builtinNmse ?? 0));
}
