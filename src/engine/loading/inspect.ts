/** Describes a model without loading it, from its header, graph and vocabulary. */
import { chooseCapacity } from '../memory/capacity.ts';
import { chooseEmbeddingCapacity } from '../memory/embedding-capacity.ts';
import { type ModelFile, ModelFileError, type TensorType } from '../formats/model-file.ts';
import { pageBytes, workspaceBytes } from '../memory/memory.ts';
import { countWeights, kindOf, poolingOf } from './model-info.ts';
import { buildGraph } from '../models/registry.ts';
import { createTokenizer } from '../tokenizer/index.ts';
import { EngineError, type ModelInfo } from '../types.ts';
import { weightBytes } from './weights.ts';

export interface ModelFacts {
  readonly name: string | undefined;
  readonly format: ModelFile['format'];
  readonly architecture: string;
  readonly parameters: number;
  /** The type that holds most of the weights. */
  readonly quantization: string;
  readonly sizeBytes: number;
  /** Purpose of the model; undefined when its graph cannot be built. */
  readonly kind: ModelInfo['kind'] | undefined;
  /** How rows become an embedding; undefined when its graph cannot be built. */
  readonly pooling: ModelInfo['pooling'] | undefined;
  /** Context length in training; undefined when its graph cannot be built. */
  readonly contextLength: number | undefined;
  readonly types: readonly { type: TensorType; tensors: number; weights: number; bytes: number }[];
  readonly tokenizer: { readonly kind: string; readonly tokens: number } | undefined;
  readonly chatTemplate: boolean;
  /** The tokenizer supports fill-in-the-middle. */
  readonly insert: boolean;
  /** Memory for one sequence at the default context. */
  readonly memory: { readonly context: number; readonly bytes: number } | undefined;
  /** Notes for the user who loads it. */
  readonly notes: readonly string[];
  /** Why it cannot be loaded; empty when it can. */
  readonly problems: readonly string[];
}

export async function inspectModel(file: ModelFile): Promise<ModelFacts> {
  const problems: string[] = [];
  const graph = await recordProblems(problems, () => buildGraph(file));
  const tokenizer = await recordProblems(problems, () => createTokenizer(file.metadata));
  const { parameters, quantization, types } = countWeights(file);
  const name = file.metadata.get('general.name');
  return {
    name: typeof name === 'string' && name !== '' ? name : undefined,
    format: file.format,
    architecture: String(file.metadata.get('general.architecture') ?? 'unknown'),
    parameters,
    quantization,
    sizeBytes: file.sizeBytes,
    kind: graph && kindOf(graph),
    pooling: graph && poolingOf(graph),
    contextLength: graph?.shape.trainedContext,
    types: types.map(([type, counts]) => ({ type, ...counts })),
    tokenizer: tokenizer && { kind: tokenizer.kind, tokens: tokenizer.vocabSize },
    chatTemplate: typeof file.metadata.get('tokenizer.chat_template') === 'string',
    insert: tokenizer?.fim !== undefined,
    memory: graph && sequenceMemory(graph.shape, weightBytes(file, graph), file.name),
    notes: file.notes ?? [],
    problems,
  };
}

/** Memory of one sequence at the default context, on an adapter without limits. */
function sequenceMemory(
  shape: Parameters<typeof pageBytes>[0],
  weights: number,
  name: string,
): NonNullable<ModelFacts['memory']> {
  const request = {
    shape,
    weightBytes: weights,
    memoryBytes: Number.MAX_SAFE_INTEGER,
    maxBindingBytes: Number.MAX_SAFE_INTEGER,
    software: false,
    slots: 1,
    name,
  };
  const { embedding } = shape;
  const capacity = embedding ? chooseEmbeddingCapacity(request, embedding) : chooseCapacity(request);
  const bytes = weights + workspaceBytes(shape, capacity) + capacity.pages * pageBytes(shape);
  return { context: capacity.context, bytes };
}

/** Runs a step and records its error as a problem of the file; other errors are bugs and are thrown. */
async function recordProblems<T>(problems: string[], step: () => T | Promise<T>): Promise<T | undefined> {
  try {
    return await step();
  } catch (error) {
    if (!(error instanceof ModelFileError || error instanceof EngineError)) throw error;
    problems.push(error.message);
    return undefined;
  }
}
