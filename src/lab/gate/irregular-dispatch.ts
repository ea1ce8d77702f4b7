/** Checks for every size of a step whether a dispatch rule covers its rows as it does for other sizes. */
import type { Contract } from '../../../kernels/contracts.ts';
import { createFinding } from '../stages/codes.ts';
import type { Finding, ParityCase } from '../types.ts';
import type { Grid } from './dispatch.ts';

/** Steps have at most this many rows by default. */
const maxTokens = 1024;
/** Shapes that are checked. */
const maxShapes = 4;
/** Numbers of workgroups in the message. */
const shownCounts = 4;

/**
 * A warning if the workgroups along an axis are not `min(cap, c * ceil(tokens / k) + d)` for all numbers of tokens: then the rule
 * knows a number of tokens.
 */
export function findIrregularDispatch(
  contract: Contract,
  cases: readonly ParityCase[],
  gridFor: (parityCase: ParityCase) => Grid,
): Finding[] {
  if (contract.tokens === 'one') return [];
  const shapes = new Map(
    cases.map((one) => [JSON.stringify(Object.entries(one.dims).filter(([name]) => name !== 'tokens')), one]),
  );
  for (const parityCase of [...shapes.values()].slice(-maxShapes)) {
    const { grids, limit } = gridsByTokens(parityCase, gridFor);
    // A step of the model's shapes may have any of these sizes.
    if (limit !== undefined && parityCase.name.startsWith('live'))
      return [createFinding('irregular_dispatch', 'warning', `${limit}, case ${parityCase.name}`)];
    for (const [axis, name] of ['x', 'y', 'z'].entries()) {
      const counts = grids.map((grid) => grid[axis] ?? 1);
      const length = regularLength(counts);
      if (length === counts.length) continue;
      const first = Math.max(0, length + 1 - shownCounts);
      const shown = counts.slice(first, length + 1);
      return [
        createFinding(
          'irregular_dispatch',
          'warning',
          `dispatch.${name} is ${shown.join(', ')} for ${first + 1} to ${length + 1} tokens, which is not min(cap, c * ceil(tokens / k) + d) for any cap, c, k and d: a step of one size may lack rows; case ${parityCase.name}`,
        ),
      ];
    }
  }
  return [];
}

/** Grids for 1, 2, ... tokens, as far as they are valid, and why the next one is not. */
function gridsByTokens(
  parityCase: ParityCase,
  gridFor: (parityCase: ParityCase) => Grid,
): { grids: Grid[]; limit?: string } {
  const grids: Grid[] = [];
  for (let tokens = 1; tokens <= maxTokens; tokens++) {
    try {
      grids.push(gridFor({ ...parityCase, dims: { ...parityCase.dims, tokens } }));
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      return { grids, limit: `for ${tokens} tokens, ${error.message}` };
    }
  }
  return { grids };
}

/** For how many numbers of tokens, from 1, the counts are regular. */
function regularLength(counts: readonly number[]): number {
  if (isRegular(counts)) return counts.length;
  let [regular, irregular] = [1, counts.length];
  while (irregular - regular > 1) {
    const middle = (regular + irregular) >> 1;
    if (isRegular(counts.slice(0, middle))) regular = middle;
    else irregular = middle;
  }
  return regular;
}

/** Whether the counts are those of a line, rounded up, that starts at or above 0 and may end at a cap. */
function isRegular(counts: readonly number[]): boolean {
  const cap = counts.at(-1) ?? 0;
  const capped = counts.findLastIndex((count) => count !== cap) + 1;
  // The last step may be cut off by the cap.
  let unit = 0;
  for (let n = 1; n < capped; n++) {
    const step = (counts[n] ?? 0) - (counts[n - 1] ?? 0);
    if (step < 0) return false;
    unit = greatestDivisor(unit, step);
  }
  if ((counts[capped - 1] ?? 0) > cap) return false;
  if (unit === 0) unit = Math.max(1, cap - (counts[0] ?? 0));
  const heights = counts.map((count) => count / unit);
  /** By how much the line may shift without another number of workgroups. It is concave in the slope. */
  const roomAt = (slope: number): number => {
    let [least, most] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
    for (const [n, height] of heights.entries()) {
      const rise = slope * (n + 1);
      if (n < capped) least = Math.min(least, height - rise);
      most = Math.max(most, height - 1 - rise);
    }
    return least - most;
  };
  let [low, high] = [0, Number.POSITIVE_INFINITY];
  for (let n = 0; n < capped; n++) high = Math.min(high, (heights[n] ?? 0) / (n + 1));
  if (high === Number.POSITIVE_INFINITY) return true;
  for (let turn = 0; turn < 80; turn++) {
    const [a, b] = [low + (high - low) / 3, high - (high - low) / 3];
    if (roomAt(a) < roomAt(b)) low = a;
    else high = b;
  }
  return Math.max(roomAt(low), roomAt(high)) > 1e-7;
}

const greatestDivisor = (a: number, b: number): number => (b === 0 ? a : greatestDivisor(b, a % b));
