/** Validation of requests that rank, and the score of a row. */
import type { RankHead } from '../graph/graph.ts';
import { summarizeList } from '../../util/summarize-list.ts';
import { EngineError, type ModelInfo } from '../types.ts';
import type { TokenPair } from './pair-encoder.ts';

/** @throws EngineError that names every pair that cannot be scored */
export function validateRankRequest(
  pairs: readonly TokenPair[],
  { contextLength }: Pick<ModelInfo, 'contextLength'>,
): void {
  const empty = pairs.flatMap(({ length }, index) => (length === 0 ? [index] : []));
  if (empty.length > 0)
    throw new EngineError('invalid_request', `pair ${summarizeList(empty)} has no tokens`);
  const tooLong = pairs.flatMap(({ length }, index) =>
    length > contextLength ? [`pair ${index} has ${length}`] : [],
  );
  if (tooLong.length > 0)
    throw new EngineError(
      'context_length_exceeded',
      `the model ranks pairs of up to ${contextLength} tokens, but ${summarizeList(tooLong)}`,
    );
}

/**
 * The logit of a pair.
 * @param row [width], as the graph computes it
 * @throws EngineError `broken_model` for a score that is not finite
 */
export function scorePair(row: Float32Array, { activation, weights, bias }: RankHead): number {
  let sum = bias;
  for (const [at, weight] of weights.entries()) {
    const value = row[at] as number;
    sum += weight * (activation === 'tanh' ? Math.tanh(value) : value);
  }
  if (Number.isFinite(sum)) return sum;
  throw new EngineError(
    'broken_model',
    'the score is not finite: the model file is damaged, or its values overflow',
  );
}
