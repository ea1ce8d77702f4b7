import type { ModelFile, TensorType } from './formats/model-file.ts';
import type { Graph } from './graph.ts';
import type { ModelInfo } from './types.ts';

/** What there is to say about a model. The digest is filled in by the caller. */
export function describeModel(
  file: ModelFile,
  graph: Graph,
  contextLength: number,
): Omit<ModelInfo, 'digest'> {
  const counts = new Map<TensorType, number>();
  let parameters = 0;
  for (const tensor of file.tensors.values()) {
    const elements = tensor.shape.reduce((product, size) => product * size, 1);
    parameters += elements;
    counts.set(tensor.type, (counts.get(tensor.type) ?? 0) + elements);
  }
  const [quantization = 'F32'] = [...counts].sort((a, b) => b[1] - a[1]).map(([type]) => type);
  const description = file.metadata.get('general.description');
  return {
    id: modelId(file),
    architecture: String(file.metadata.get('general.architecture')),
    parameters,
    quantization,
    contextLength,
    trainedContextLength: graph.shape.trainedContext,
    vocabSize: graph.shape.vocabulary,
    sizeBytes: file.sizeBytes,
    ...(typeof description === 'string' ? { description } : {}),
  };
}

/** `general.name`, fit for a URL; without one the file's name. */
function modelId(file: ModelFile): string {
  const name = file.metadata.get('general.name');
  const base =
    file.name
      .split(/[\\/]/)
      .at(-1)
      ?.replace(/\.gguf$/i, '') ?? 'model';
  const words = typeof name === 'string' && name.trim() !== '' ? name : base;
  const id = words
    .trim()
    .toLowerCase()
    .replace(/[^a-z0-9._-]+/g, '-')
    .replace(/^-+|-+$/g, '');
  return id === '' ? 'model' : id;
}
