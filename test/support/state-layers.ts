/** Steps of several sequences, and the inputs of a state layer in them. */
import { type DeltaShape, deltaNet } from '../../kernels/reference/index.ts';
import { randomValues } from './kernel-harness.ts';

/** One sequence's part of a step. */
export interface Span {
  readonly slot: number;
  readonly position: number;
  readonly count: number;
}

/** In step layout: the rows of one sequence after those of the other. */
export function spanWords(spans: readonly Span[]): Uint32Array<ArrayBuffer> {
  let row = 0;
  return Uint32Array.from(
    spans.flatMap(({ slot, position, count }) => {
      const first = row;
      row += count;
      return [first, count, slot, position];
    }),
  );
}

/**
 * The steps that process texts of these lengths: each step a part of some texts, each limited to this many tokens.
 */
export function randomSteps(lengths: readonly number[], maxSpan: number, next: () => number): Span[][] {
  const done = lengths.map(() => 0);
  const steps: Span[][] = [];
  while (done.some((count, slot) => count < (lengths[slot] as number))) {
    const spans = lengths.flatMap((length, slot): Span[] => {
      const position = done[slot] as number;
      if (position === length || next() < 0.3) return [];
      const count = Math.min(length - position, next() < 0.3 ? 1 : 1 + Math.floor(next() * maxSpan));
      done[slot] = position + count;
      return [{ slot, position, count }];
    });
    // Not in slot order.
    if (spans.length > 0) steps.push(next() < 0.5 ? spans : spans.reverse());
  }
  return steps;
}

/** Rows of whole texts, in step order. */
export function rowsOfStep(
  spans: readonly Span[],
  texts: readonly (Float32Array | Float64Array)[],
  width: number,
): number[] {
  return spans.flatMap(({ slot, position, count }) => [
    ...(texts[slot] as Float32Array | Float64Array).subarray(position * width, (position + count) * width),
  ]);
}

/** Contents of `mixed` for the delta rule, row by row: q, k, v, z, beta, alpha, and padding. */
export interface DeltaSample {
  readonly width: number;
  readonly rows: Float32Array<ArrayBuffer>;
  readonly out: Float64Array;
  /** [valueHeads, valueDim, keyDim]: columns first, as in the kernel. */
  readonly state: Float64Array;
}

/** Elements of `mixed` for each token, in whole vectors of four. */
export const deltaWidth = ({ keyHeads, valueHeads, keyDim, valueDim }: DeltaShape): number =>
  Math.ceil((2 * keyHeads * keyDim + 2 * valueHeads * valueDim + 2 * valueHeads) / 4) * 4;

/** A random text of a head's inputs, and the oracle's outputs. */
export function deltaSample(
  shape: DeltaShape,
  { dt, a }: { dt: Float32Array; a: Float32Array },
  next: () => number,
): DeltaSample {
  const { tokens, keyHeads, valueHeads, keyDim, valueDim } = shape;
  const width = deltaWidth(shape);
  const rows = randomValues(tokens * width, next, 1.5);
  const columns = (first: number, count: number) =>
    Float32Array.from({ length: tokens * count }, (_, i) => {
      return rows[Math.floor(i / count) * width + first + (i % count)] as number;
    });
  const [keys, values] = [keyHeads * keyDim, valueHeads * valueDim];
  const gates = 2 * keys + 2 * values;
  const { out, state } = deltaNet(
    {
      q: columns(0, keys),
      k: columns(keys, keys),
      v: columns(2 * keys, values),
      beta: columns(gates, valueHeads),
      alpha: columns(gates + valueHeads, valueHeads),
      dt,
      a,
    },
    shape,
  );
  return { width, rows, out, state: columnsFirst(state, shape) };
}

const columnsFirst = (state: Float64Array, { keyDim, valueDim }: DeltaShape): Float64Array =>
  state.map((_, at) => {
    const within = at % (keyDim * valueDim);
    const from = at - within + (within % keyDim) * valueDim + Math.floor(within / keyDim);
    return state[from] as number;
  });
