/** Builds the final part of embedding models from metadata and tensors of the file. */
import { ModelFileError, type ModelFile } from '../formats/model-file.ts';
import type { Embedding, PoolMode } from '../graph/graph.ts';
import type { GraphBuilder } from '../graph/graph-builder.ts';
import { metadataValue, readNumber } from './metadata.ts';
import type { Tensors } from './tensors.ts';

/** Indexed by the value of `pooling_type`. */
const poolModes: readonly (PoolMode | undefined)[] = [undefined, 'mean', 'cls', 'last'];

/** Embedding traits of a model that may be generative as well: undefined when the file specifies no pooling. */
export function readEmbedding(
  file: ModelFile,
  traits: { bidirectional?: boolean } = {},
): Embedding | undefined {
  const type = readNumber(file, 'pooling_type', 0);
  if (type === 0) return undefined;
  const pooling = poolModes[type];
  if (!pooling) {
    throw new ModelFileError(
      'unsupported_architecture',
      `${file.name}: pooling_type ${type} is not supported (supported: 1 mean, 2 cls, 3 last)`,
    );
  }
  const { bidirectional = metadataValue(file, 'attention.causal') === false } = traits;
  const width = readNumber(file, 'embedding_length');
  const [expanded = 0] = file.tensors.get('dense_2.weight')?.shape ?? [];
  const [outputDimensions = width] = file.tensors.get('dense_3.weight')?.shape ?? [];
  if (expanded % 32 !== 0) {
    throw new ModelFileError(
      'bad_tensors',
      `${file.name}: rows of tensor 'dense_2.weight' must be a multiple of 32, got ${expanded}`,
    );
  }
  return {
    pooling,
    bidirectional,
    requiresWholeSequence: bidirectional || pooling !== 'last',
    ...(expanded > 0
      ? { from: 'embedding', dimensions: outputDimensions, expanded }
      : { from: 'last', dimensions: width }),
  };
}

/**
 * Embedding traits of a model that only makes embeddings.
 * @throws ModelFileError `bad_metadata` when the file specifies no pooling
 */
export function requireEmbedding(file: ModelFile, traits: { bidirectional: boolean }): Embedding {
  const embedding = readEmbedding(file, traits);
  if (embedding) return embedding;
  const key = `${String(file.metadata.get('general.architecture'))}.pooling_type`;
  throw new ModelFileError(
    'bad_metadata',
    `${file.name}: metadata '${key}' must name the pooling (1 mean, 2 cls, 3 last), got nothing; ` +
      "convert the model together with its 'modules.json'",
  );
}

/** Adds the final norm, the pooling and the dense layers of an embedding model. */
export function addEmbeddingOutput(
  g: GraphBuilder,
  { pooling, expanded, dimensions }: Embedding,
  tensors: Tensors,
  width: number,
): void {
  const norm = tensors.vector('output_norm.weight', width);
  if (pooling === 'last') g.norm('output.norm', norm, 'hidden', 'last');
  else {
    g.norm('output.norm', norm);
    g.pool('normed');
  }
  if (expanded === undefined) return;
  const expand = { weight: tensors.matrix('dense_2.weight', expanded, width) };
  g.dense('dense_2', expand, 'last', 'expanded', expanded);
  const reduce = { weight: tensors.matrix('dense_3.weight', dimensions, expanded) };
  g.dense('dense_3', reduce, 'expanded', 'embedding', dimensions);
}
