/** Validation of embedding requests and normalization of the rows that a model computes. */
import { summarizeList } from '../util/summarize-list.ts';
import { type EmbedRequest, EngineError, type ModelInfo } from './types.ts';

/**
 * Validates a request and returns the number of dimensions of its embeddings.
 * @throws EngineError that names every text that cannot be embedded
 */
export function validateEmbedRequest(request: EmbedRequest, model: ModelInfo): number {
  const { inputs, dimensions } = request;
  const { embeddingDimensions: modelDimensions } = model;
  if (model.kind === 'rerank')
    throw new EngineError(
      'invalid_request',
      `the model '${model.id}' ranks documents and makes no embeddings`,
    );
  const problems: string[] = [];
  const empty = inputs.flatMap(({ length }, index) => (length === 0 ? [index] : []));
  if (empty.length > 0) problems.push(`input ${summarizeList(empty)} has no tokens`);
  if (
    dimensions !== undefined &&
    !(Number.isInteger(dimensions) && dimensions >= 1 && dimensions <= modelDimensions)
  ) {
    problems.push(`dimensions must be a whole number from 1 to ${modelDimensions}, got ${dimensions}`);
  }
  if (problems.length > 0) throw new EngineError('invalid_request', problems.join('; '));
  const tooLong = inputs.flatMap(({ length }, index) =>
    length > model.contextLength ? [`input ${index} has ${length}`] : [],
  );
  if (tooLong.length > 0) {
    throw new EngineError(
      'context_length_exceeded',
      `the model embeds texts of up to ${model.contextLength} tokens, but ${summarizeList(tooLong)}`,
    );
  }
  return dimensions ?? modelDimensions;
}

/** The first `dimensions` elements of the row, scaled to unit length. */
export function normalizeEmbedding(row: Float32Array, dimensions: number): Float32Array<ArrayBuffer> {
  const leading = row.slice(0, dimensions);
  // Sums in double precision, so the squares do not overflow.
  const length = Math.sqrt(leading.reduce((sum, value) => sum + value * value, 0));
  if (!Number.isFinite(length) || length === 0) {
    throw new EngineError(
      'broken_model',
      'the embedding cannot be normalized, because its elements are all zero or not finite: the model file is damaged, or its values overflow',
    );
  }
  return leading.map((value) => value / length);
}
