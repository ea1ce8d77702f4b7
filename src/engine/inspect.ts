/** What can be said of a model without loading it: from its header, its graph and its vocabulary. */
import { chooseCapacity } from './capacity.ts';
import { chooseEmbeddingCapacity } from './embedding-capacity.ts';
import { type ModelFile, ModelFileError, type TensorType } from './formats/model-file.ts';
import { pageBytes, workBytes } from './memory.ts';
import { weightsOf } from './model-info.ts';
import { buildGraph } from './models/registry.ts';
import { createTokenizer } from './tokenizer/index.ts';
import { EngineError } from './types.ts';
import { weightBytes } from './weights.ts';

export interface ModelFacts {
  readonly name: string | undefined;
  readonly format: ModelFile['format'];
  readonly architecture: string;
  readonly parameters: number;
  /** The type that holds most of the weights. */
  readonly quantization: string;
  readonly sizeBytes: number;
  /** What it is for; undefined where its graph cannot be built. */
  readonly kind: 'generate' | 'embed' | undefined;
  /** Tokens it was trained for; undefined where its graph cannot be built. */
  readonly contextLength: number | undefined;
  readonly types: readonly { type: TensorType; tensors: number; weights: number; bytes: number }[];
  readonly tokenizer: { readonly kind: string; readonly tokens: number } | undefined;
  readonly chatTemplate: boolean;
  /** It fills in the middle of a text. */
  readonly insert: boolean;
  /** What one sequence takes at the context that the engine takes by default. */
  readonly memory: { readonly context: number; readonly bytes: number } | undefined;
  /** What a person who loads it should know. */
  readonly notes: readonly string[];
  /** Why it could not be loaded; empty when it could. */
  readonly problems: readonly string[];
}

export async function inspectModel(file: ModelFile): Promise<ModelFacts> {
  const problems: string[] = [];
  const graph = await attempt(problems, () => buildGraph(file));
  const tokenizer = await attempt(problems, () => createTokenizer(file.metadata));
  const { parameters, quantization, types } = weightsOf(file);
  const name = file.metadata.get('general.name');
  return {
    name: typeof name === 'string' && name !== '' ? name : undefined,
    format: file.format,
    architecture: String(file.metadata.get('general.architecture') ?? 'unknown'),
    parameters,
    quantization,
    sizeBytes: file.sizeBytes,
    kind: graph && (graph.shape.embedding ? 'embed' : 'generate'),
    contextLength: graph?.shape.trainedContext,
    types: types.map(([type, counts]) => ({ type, ...counts })),
    tokenizer: tokenizer && { kind: tokenizer.kind, tokens: tokenizer.vocabSize },
    chatTemplate: typeof file.metadata.get('tokenizer.chat_template') === 'string',
    insert: tokenizer?.fim !== undefined,
    memory: graph && memoryOf(graph.shape, weightBytes(file, graph), file.name),
    notes: file.notes ?? [],
    problems,
  };
}

/** Of one sequence at the default context, on an adapter that sets no limit. */
function memoryOf(
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
  const bytes = weights + workBytes(shape, capacity) + capacity.pages * pageBytes(shape);
  return { context: capacity.context, bytes };
}

/** A fault of the file is a fact about it; any other is ours. */
async function attempt<T>(problems: string[], step: () => T | Promise<T>): Promise<T | undefined> {
  try {
    return await step();
  } catch (error) {
    if (!(error instanceof ModelFileError || error instanceof EngineError)) throw error;
    problems.push(error.message);
    return undefined;
  }
}
