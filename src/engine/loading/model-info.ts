import type { ModelFile, TensorType } from '../formats/model-file.ts';
import type { Graph } from '../graph/graph.ts';
import type { ModelInfo } from '../types.ts';

/** Counts the weights of a model by type, the most frequent type first. */
export function countWeights(file: ModelFile) {
  const byType = new Map<TensorType, { tensors: number; weights: number; bytes: number }>();
  let parameters = 0;
  for (const { type, shape, sizeBytes } of file.tensors.values()) {
    const elements = shape.reduce((product, size) => product * size, 1);
    const { tensors, weights, bytes } = byType.get(type) ?? { tensors: 0, weights: 0, bytes: 0 };
    byType.set(type, { tensors: tensors + 1, weights: weights + elements, bytes: bytes + sizeBytes });
    parameters += elements;
  }
  const types = [...byType].sort(([, a], [, b]) => b.weights - a.weights);
  return { parameters, types, quantization: types[0]?.[0] ?? 'F32' };
}

/** Information about a model for clients. The caller adds the digest. */
export function describeModel(
  file: ModelFile,
  graph: Graph,
  contextLength: number,
): Omit<ModelInfo, 'digest'> {
  const { parameters, quantization } = countWeights(file);
  const description = file.metadata.get('general.description');
  return {
    id: modelId(file),
    architecture: String(file.metadata.get('general.architecture')),
    kind: kindOf(graph),
    embeddingDimensions: graph.shape.embedding?.dimensions ?? graph.shape.width,
    pooling: poolingOf(graph),
    parameters,
    quantization,
    contextLength,
    trainedContextLength: graph.shape.trainedContext,
    vocabSize: graph.shape.vocabulary,
    sizeBytes: file.sizeBytes,
    ...(typeof description === 'string' ? { description } : {}),
  };
}

/** Purpose of a model. */
export const kindOf = ({ shape, rankHead }: Graph): ModelInfo['kind'] =>
  rankHead ? 'rerank' : shape.embedding ? 'embed' : 'generate';

/**
 * The pooling that the file names, or `rank` with a head that ranks; for a model that generates, its last token, which
 * alone has seen the whole text.
 */
export const poolingOf = ({ shape, rankHead }: Graph): ModelInfo['pooling'] =>
  rankHead ? 'rank' : (shape.embedding?.pooling ?? 'last');

/** Model id: `general.name` in a form fit for URLs; without one, the file's name. */
export function modelId(file: Pick<ModelFile, 'metadata' | 'name'>): string {
  const name = file.metadata.get('general.name');
  const base =
    file.name
      .split(/[\\/]/)
      .at(-1)
      ?.replace(/(-\d{5}-of-\d{5})?\.gguf$/i, '') ?? 'model';
  const label = typeof name === 'string' && name.trim() !== '' ? name : base;
  const id = label
    .trim()
    .toLowerCase()
    .replace(/[^a-z0-9._-]+/g, '-')
    .replace(/^-+|-+$/g, '');
  return id === '' ? 'model' : id;
}
