/** Queries and keys with scores that random numbers do not have. */
import type { PagedCacheLayout } from './paged.ts';
import type { Random } from './random.ts';

/**
 * Scores of a whole row: `equal` (queries of zeros), `sink` (one position far above all others, whose value is zero), and
 * `negative` (all far below 0, and far apart), `late` (those of the first three quarters are far below the others).
 */
export type Scores = 'equal' | 'sink' | 'negative' | 'late';

/** How far the score of a sink is above all others: in 16-bit fixed point, their shares would be 0. */
const sinkScore = 12;

/** For one token and one key head: sets what the scores of all its heads are like. Heads have the scale 1 / sqrt(head_dim). */
export function setScores(
  random: Random,
  scores: Scores,
  one: {
    readonly qkv: Float32Array;
    readonly keys: Float16Array;
    readonly values: Float16Array;
    readonly headDim: number;
    readonly layout: PagedCacheLayout;
  },
): void {
  const { qkv, keys, values, headDim, layout } = one;
  if (scores === 'equal') {
    qkv.fill(0);
    return;
  }
  // All queries point the same way; along it, keys have what the scores need.
  for (let i = 0; i < qkv.length; i++) qkv[i] = (qkv[i] as number) / 8 + 1;
  for (let i = 0; i < keys.length; i++) keys[i] = (keys[i] as number) / 8;
  const last = layout.position(0);
  const sink = random.integerBelow(Math.ceil(last / 2));
  for (let position = 0; position <= last; position++) {
    const start = layout.row(layout.slot(0), position, 0) * headDim;
    const isSink = scores === 'sink' && position === sink;
    const score = {
      sink: isSink ? sinkScore : 0,
      negative: -400 * (0.3 + 0.7 * random.uniform()),
      late: position < 0.75 * last ? -150 : 0,
    }[scores];
    for (let at = start; at < start + headDim; at++) {
      keys[at] = (keys[at] as number) + score / Math.sqrt(headDim);
      if (isSink) values[at] = 0;
    }
  }
}

/** Constant that is part of every key and, with either sign, of every query. */
const commonKeyValue = 3;
/** Magnitude of the scores in the extreme case: e^score overflows f32. */
const farScore = 250;

/**
 * Shifts all scores of a query to about `farScore` or `-farScore`. This does not change the softmax, unless it is
 * computed without subtracting the maximum, or in half precision.
 */
export function shiftScores(
  random: Random,
  qkv: Float32Array,
  keys: Float16Array,
  { heads, kvHeads, headDim }: { heads: number; kvHeads: number; headDim: number },
): void {
  // Keys are similar, so that several positions contribute.
  for (let i = 0; i < keys.length; i++) keys[i] = (keys[i] as number) / 10 + commonKeyValue;
  const shift = farScore / (commonKeyValue * Math.sqrt(headDim));
  const width = (heads + 2 * kvHeads) * headDim;
  for (let row = 0; row < qkv.length; row += width) {
    for (let h = 0; h < heads; h++) {
      const sign = random.integerBelow(2) ? shift : -shift;
      for (let d = 0; d < headDim; d++) {
        const at = row + h * headDim + d;
        qkv[at] = (qkv[at] as number) / 4 + sign;
      }
    }
  }
}
