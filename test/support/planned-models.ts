/**
 * Models whose plans are made without a device: the fixtures of docs/models.md, published shapes with a few of their layers, and
 * random shapes. Matrices have no data.
 */
import { join } from 'node:path';
import { weightFormats } from '../../kernels/formats.ts';
import { supportedConvLengths } from '../../kernels/short-conv.ts';
import { openModelFile } from '../../src/engine/formats/open-model-file.ts';
import { type MetadataArray, type ModelFile, type TensorType } from '../../src/engine/formats/model-file.ts';
import { bytesOfRow, rowsOf } from '../../src/engine/formats/rows.ts';
import { buildGraph } from '../../src/engine/models/registry.ts';
import type { Graph } from '../../src/engine/graph/graph.ts';
import { nodePlatform } from '../../src/platform/node.ts';
import { fixtureNames } from './fixture-names.ts';
import type { GgufTensor, GgufType, GgufValue } from './gguf-writer.ts';
import { repository } from './host.ts';
import { random } from './kernel-harness.ts';
import { gemma4Parts, type TinyGemma4 } from './tiny-gemma4.ts';
import { type TinyEncoder, tinyEncoderParts } from './tiny-encoder.ts';
import { type ModelParts, type TinyModel, tinyModelParts } from './tiny-model.ts';

export interface PlannedModel {
  readonly name: string;
  readonly file: ModelFile;
  readonly graph: Graph;
}

type Parts = ModelParts | TinyModel | TinyEncoder | ({ readonly architecture: 'gemma4' } & TinyGemma4);

const isEncoderShape = (shape: TinyModel | TinyEncoder): shape is TinyEncoder =>
  shape.architecture === 'bert' || shape.architecture === 'nomic-bert';

function partsOf(shape: Parts): ModelParts {
  if ('tensors' in shape) return shape;
  if (shape.architecture === 'gemma4') return gemma4Parts(shape);
  return isEncoderShape(shape) ? tinyEncoderParts(shape) : tinyModelParts(shape);
}

const valueOf = (value: GgufValue): unknown =>
  value.type === 'array' ? value.value.map(valueOf) : value.value;

/** A model file without a container; only tensors that are read have data. */
function fileOf(name: string, { metadata, tensors }: ModelParts, type?: TensorType): ModelFile {
  const data = new Map(tensors.map((tensor) => [tensor.name, tensor.data]));
  const infos = tensors.map((tensor) => {
    const isMatrix = tensor.type !== 'F32' || tensor.name === 'position_embd.weight';
    const info = { ...tensor, type: (isMatrix && type) || tensor.type, offset: 0 };
    return [tensor.name, { ...info, sizeBytes: rowsOf(info) * bytesOfRow(info) }] as const;
  });
  return {
    format: 'gguf',
    name,
    sizeBytes: 0,
    metadata: new Map(metadata.map(([key, value]) => [key, valueOf(value) as MetadataArray])),
    tensors: new Map(infos),
    readRows: (tensor) => Promise.resolve((data.get(tensor.name) as () => Uint8Array)()),
    close: () => Promise.resolve(),
  };
}

/** @param type in place of the type of the matrices */
async function planned(name: string, shape: Parts, type?: TensorType): Promise<PlannedModel> {
  const file = fileOf(name, partsOf(shape), type);
  return { name, file, graph: await buildGraph(file) };
}

/** The models of test/fixtures/architectures, one of each architecture and more, and the embedded model. */
export async function fixtureModels(): Promise<PlannedModel[]> {
  const platform = nodePlatform();
  const paths = [
    ...fixtureNames.map((name) => `test/fixtures/architectures/${name}/model.gguf`),
    'test/fixtures/architectures/types/Q4_K_M.gguf',
    'models/lathe-tiny-q8_0.gguf',
  ];
  return await Promise.all(
    paths.map(async (name) => {
      const file = await openModelFile(await platform.modelFiles(join(repository, name)));
      return { name, file, graph: await buildGraph(file) };
    }),
  );
}

/** EmbeddingGemma as Gemma 3 with bidirectional attention and two dense layers. */
function gemmaEmbedding(shape: Omit<TinyModel, 'architecture'>): ModelParts {
  const { metadata, tensors } = tinyModelParts({ ...shape, architecture: 'gemma3', pooling: 1 });
  const { width = 64 } = shape;
  const dense = (name: string, rows: number, columns: number): GgufTensor => ({
    name: `${name}.weight`,
    type: 'F16',
    shape: [rows, columns],
    data: () => new Uint8Array(),
  });
  return {
    metadata: metadata.map(([key, value]) =>
      key === 'general.architecture'
        ? [key, { type: 'string', value: 'gemma-embedding' }]
        : [key.replace(/^gemma3\./, 'gemma-embedding.'), value],
    ),
    tensors: [...tensors, dense('dense_2', 4 * width, width), dense('dense_3', width, 4 * width)],
  };
}

/** Llama 3's divisors of frequencies; any positive numbers do. */
const ropeFactors = (rotary: number) => Array.from({ length: rotary / 2 }, () => 1);

const vocab = 4096;
const llama = { architecture: 'llama', vocab, context: 131_072, type: 'Q4_K' } as const;
const llama3 = (headDim: number) => ({ ...llama, headDim, ropeFactors: ropeFactors(headDim) });
const qwen2 = { architecture: 'qwen2', vocab, context: 32_768, biases: true, type: 'Q4_K' } as const;
const qwen3 = { architecture: 'qwen3', vocab, context: 40_960, headDim: 128, type: 'Q4_K' } as const;
const gemma3 = { architecture: 'gemma3', vocab, context: 131_072, headDim: 256, type: 'Q4_0' } as const;
const phi3 = { architecture: 'phi3', vocab, type: 'Q4_K' } as const;
const granite = { architecture: 'granite', vocab, context: 131_072, type: 'Q4_K' } as const;
const lfm2 = { architecture: 'lfm2', vocab, context: 128_000, headDim: 64, type: 'Q4_0' } as const;
const qwen35 = {
  architecture: 'qwen35',
  vocab,
  context: 262_144,
  headDim: 256,
  rotary: 64,
  type: 'Q4_K',
} as const;
const delta = (heads: number) => ({ kernel: 4, keyHeads: 16, valueHeads: heads, keyDim: 128, valueDim: 128 });
const gemma4 = {
  architecture: 'gemma4',
  vocab,
  context: 131_072,
  headDim: 512,
  nearDim: 256,
  window: 512,
} as const;

/**
 * Hyperparameters of published models, from their config.json, with two to six layers, a part of the vocabulary and few experts:
 * those sizes select no kernel. First those of docs/models.md, and some that are used most.
 */
const listedShapes: Readonly<Record<string, Parts>> = {
  'Llama 3.1 8B': { ...llama3(128), width: 4096, heads: 32, kvHeads: 8, feedForward: 14_336, untied: true },
  'SmolLM2 135M': {
    ...llama,
    context: 8192,
    width: 576,
    heads: 9,
    kvHeads: 3,
    headDim: 64,
    feedForward: 1536,
  },
  'Qwen2.5 0.5B': { ...qwen2, width: 896, heads: 14, kvHeads: 2, headDim: 64, feedForward: 4864 },
  'Qwen3 0.6B': { ...qwen3, width: 1024, heads: 16, kvHeads: 8, feedForward: 3072 },
  'Qwen3 4B': { ...qwen3, width: 2560, heads: 32, kvHeads: 8, feedForward: 9728 },
  'Qwen3 30B-A3B': {
    ...qwen3,
    architecture: 'qwen3moe',
    width: 2048,
    heads: 32,
    kvHeads: 4,
    experts: { count: 16, used: 8, feedForward: 768 },
  },
  'gpt-oss 20B': {
    architecture: 'gpt-oss',
    vocab,
    context: 131_072,
    width: 2880,
    heads: 64,
    kvHeads: 8,
    headDim: 64,
    window: 128,
    experts: { count: 16, used: 4, feedForward: 2880 },
    type: 'MXFP4',
  },
  'EmbeddingGemma 300M': gemmaEmbedding({
    ...gemma3,
    context: 2048,
    width: 768,
    heads: 3,
    kvHeads: 1,
    window: 512,
  }),
  'Gemma 4 E2B': { ...gemma4, layers: 6, width: 1536, heads: 8, kvHeads: 1, layerInput: 256, type: 'Q4_0' },
  'Phi 3 mini': { ...phi3, context: 4096, width: 3072, heads: 32, kvHeads: 32, headDim: 96, window: 2047 },
  'Phi 3.5 mini': {
    ...phi3,
    context: 131_072,
    width: 3072,
    heads: 32,
    kvHeads: 32,
    headDim: 96,
    feedForward: 8192,
  },
  'LFM2 350M': { ...lfm2, width: 1024, heads: 16, kvHeads: 8, feedForward: 4608, state: { kernel: 3 } },
  'Qwen3.5 0.8B': { ...qwen35, width: 1024, heads: 8, kvHeads: 2, feedForward: 3584, state: delta(16) },
  'MiniLM L6': { architecture: 'bert', vocab, context: 512, width: 384, heads: 12, feedForward: 1536 },
  'BGE base': { architecture: 'bert', vocab, context: 512, width: 768, heads: 12, pooling: 2, type: 'F16' },
  'Nomic Embed 1.5': { architecture: 'nomic-bert', vocab, context: 2048, width: 768, heads: 12, type: 'F16' },
};

const small = { vocab, context: 32_768, headDim: 32, heads: 8, kvHeads: 4, type: 'Q8_0' } as const;

/** Small heads in long contexts, in every mode of attention. */
const smallShapes: Readonly<Record<string, Parts>> = {
  'small llama': { ...small, architecture: 'llama' },
  'small llama, heads of 64': { ...small, architecture: 'llama', headDim: 64 },
  'small phi3, heads of 96, a window': {
    ...small,
    architecture: 'phi3',
    headDim: 96,
    heads: 4,
    kvHeads: 4,
    window: 128,
  },
  'small llama with a window': { ...small, architecture: 'llama', window: 128 },
  'small phi3': { ...small, architecture: 'phi3' },
  'small phi3 with a window': { ...small, architecture: 'phi3', window: 128 },
  'small gemma3': { ...small, architecture: 'gemma3', window: 128 },
  'small gpt-oss': { ...small, architecture: 'gpt-oss', window: 128 },
};

/** Every length of convolutions. */
const convolutionShapes: Readonly<Record<string, Parts>> = Object.fromEntries(
  supportedConvLengths.flatMap((kernel) =>
    (['lfm2', 'qwen35'] as const).map((architecture) => [
      `small ${architecture} with convolutions of ${kernel}`,
      { ...small, architecture, state: { kernel } },
    ]),
  ),
);

const otherShapes: Readonly<Record<string, Parts>> = {
  'Llama 2 7B': {
    ...llama,
    context: 4096,
    width: 4096,
    heads: 32,
    kvHeads: 32,
    headDim: 128,
    feedForward: 11_008,
  },
  'Llama 3.1 70B': { ...llama3(128), width: 8192, heads: 64, kvHeads: 8, feedForward: 28_672, untied: true },
  'Llama 3.2 1B': { ...llama3(64), width: 2048, heads: 32, kvHeads: 8, feedForward: 8192 },
  'Llama 3.2 3B': { ...llama3(128), width: 3072, heads: 24, kvHeads: 8, feedForward: 8192 },
  'TinyLlama 1.1B': {
    ...llama,
    context: 2048,
    width: 2048,
    heads: 32,
    kvHeads: 4,
    headDim: 64,
    feedForward: 5632,
  },
  'Mistral 7B 0.1': {
    ...llama,
    context: 32_768,
    width: 4096,
    heads: 32,
    kvHeads: 8,
    headDim: 128,
    window: 4096,
  },
  'Mistral Nemo 12B': { ...llama, width: 5120, heads: 32, kvHeads: 8, headDim: 128, feedForward: 14_336 },
  'SmolLM2 360M': {
    ...llama,
    context: 8192,
    width: 960,
    heads: 15,
    kvHeads: 5,
    headDim: 64,
    feedForward: 2560,
  },
  'SmolLM2 1.7B': {
    ...llama,
    context: 8192,
    width: 2048,
    heads: 32,
    kvHeads: 32,
    headDim: 64,
    feedForward: 8192,
  },
  'Qwen2.5 1.5B': { ...qwen2, width: 1536, heads: 12, kvHeads: 2, headDim: 128, feedForward: 8960 },
  'Qwen2.5 3B': { ...qwen2, width: 2048, heads: 16, kvHeads: 2, headDim: 128, feedForward: 11_008 },
  'Qwen2.5 7B': {
    ...qwen2,
    width: 3584,
    heads: 28,
    kvHeads: 4,
    headDim: 128,
    feedForward: 18_944,
    untied: true,
  },
  'Qwen2.5 14B': {
    ...qwen2,
    width: 5120,
    heads: 40,
    kvHeads: 8,
    headDim: 128,
    feedForward: 13_824,
    untied: true,
  },
  'Qwen3 8B': { ...qwen3, width: 4096, heads: 32, kvHeads: 8, feedForward: 12_288, untied: true },
  'Qwen3 14B': { ...qwen3, width: 5120, heads: 40, kvHeads: 8, feedForward: 17_408, untied: true },
  'Qwen3 32B': { ...qwen3, width: 5120, heads: 64, kvHeads: 8, feedForward: 25_600, untied: true },
  'Qwen3 Embedding 0.6B': { ...qwen3, pooling: 3, width: 1024, heads: 16, kvHeads: 8, feedForward: 3072 },
  'Gemma 3 270M': { ...gemma3, width: 640, heads: 4, kvHeads: 1, feedForward: 2048, window: 512 },
  'Gemma 3 4B': { ...gemma3, width: 2560, heads: 8, kvHeads: 4, feedForward: 10_240, window: 1024 },
  'Gemma 3 27B': {
    ...gemma3,
    headDim: 128,
    width: 5376,
    heads: 32,
    kvHeads: 16,
    feedForward: 21_504,
    window: 1024,
  },
  'Gemma 4 E4B': { ...gemma4, layers: 6, width: 2560, heads: 8, kvHeads: 2, layerInput: 256, type: 'Q4_0' },
  'Gemma 4 31B': {
    ...gemma4,
    layers: 6,
    shared: 0,
    width: 5376,
    heads: 32,
    kvHeads: 16,
    keysAreValues: 4,
    layerInput: 0,
    type: 'Q4_0',
  },
  'Phi 3 medium': { ...phi3, context: 131_072, width: 5120, heads: 40, kvHeads: 10, headDim: 128 },
  'Phi 4 mini': { ...phi3, context: 131_072, width: 3072, heads: 24, kvHeads: 8, headDim: 128, rotary: 96 },
  'SmolLM3 3B': {
    ...llama,
    architecture: 'smollm3',
    layers: 4,
    width: 2048,
    heads: 16,
    kvHeads: 4,
    headDim: 128,
  },
  'Granite 3.3 2B': { ...granite, width: 2048, heads: 32, kvHeads: 8, headDim: 64, feedForward: 8192 },
  'Granite 3.3 8B': { ...granite, width: 4096, heads: 32, kvHeads: 8, headDim: 128, feedForward: 12_800 },
  'LFM2 700M': { ...lfm2, width: 1536, heads: 24, kvHeads: 8, feedForward: 6912, state: { kernel: 3 } },
  'LFM2 1.2B': { ...lfm2, width: 2048, heads: 32, kvHeads: 8, feedForward: 8192, state: { kernel: 3 } },
  'Qwen3.5 4B': { ...qwen35, width: 2560, heads: 16, kvHeads: 4, feedForward: 9216, state: delta(32) },
  'Qwen3.5 27B': { ...qwen35, width: 5120, heads: 24, kvHeads: 4, feedForward: 17_408, state: delta(48) },
};

const plannedAll = (shapes: Readonly<Record<string, Parts>>) =>
  Promise.all(Object.entries(shapes).map(([name, shape]) => planned(name, shape)));

/** Models whose variants are all listed, with the fixtures: those of docs/models.md, and some that are used most. */
export const listedModels = (): Promise<PlannedModel[]> => plannedAll(listedShapes);

/** Small models that have every mode of attention. */
export const smallModels = (): Promise<PlannedModel[]> => plannedAll(smallShapes);

/** Small models with every length of convolutions. */
export const convolutionModels = (): Promise<PlannedModel[]> => plannedAll(convolutionShapes);

/** Other published models. */
export const otherModels = (): Promise<PlannedModel[]> => plannedAll(otherShapes);

/** Models that have, in this weight type, every kind of product, embedding and expert. */
export const modelsOfType = (type: TensorType): Promise<PlannedModel[]> =>
  Promise.all(
    Object.entries(shapesOfType).map(([name, shape]) => planned(`${name} in ${type}`, shape, type)),
  );

const common = { width: 256, feedForward: 256, headDim: 64, type: 'F16' } as const;
const shapesOfType = {
  'qwen2 with biases': { ...common, architecture: 'qwen2', biases: true },
  llama: { ...common, architecture: 'llama', untied: true },
  qwen35: { ...common, architecture: 'qwen35' },
  'lfm2 with biases': { ...common, architecture: 'lfm2', state: { biases: true } },
  gemma4: { ...common, architecture: 'gemma4', nearDim: 64 },
  'gpt-oss': { ...common, architecture: 'gpt-oss', experts: { count: 4, used: 2, feedForward: 256 } },
  bert: { architecture: 'bert', width: 256, feedForward: 256, heads: 4, type: 'F16' },
  'nomic-bert': { architecture: 'nomic-bert', width: 256, feedForward: 256, heads: 4, type: 'F16' },
} as const satisfies Record<string, Parts>;

const architectures = [
  'gemma3',
  'gpt-oss',
  'granite',
  'lfm2',
  'llama',
  'phi3',
  'qwen2',
  'qwen3',
  'qwen3moe',
  'qwen35',
  'smollm3',
  'gemma4',
  'bert',
  'nomic-bert',
] as const;

/** Valid models with random sizes, the same for the same seed. */
export async function randomModels(count: number, seed: number): Promise<PlannedModel[]> {
  const next = random(seed);
  const models: PlannedModel[] = [];
  while (models.length < count) {
    const shape = randomShape(next);
    const { heads, kvHeads = heads, headDim } = shape;
    const name = `random ${models.length}: ${shape.architecture}, ${heads} heads, ${kvHeads} of keys, ${headDim} wide`;
    models.push(await planned(name, shape));
  }
  return models;
}

type RandomShape = Exclude<Parts, ModelParts> & { heads: number; kvHeads?: number; headDim: number };

function randomShape(next: () => number): RandomShape {
  const below = (limit: number) => Math.floor(next() * limit);
  const pick = <T>(values: readonly T[]): T => values[below(values.length)] as T;
  const architecture = pick(architectures);
  const isEncoder = architecture === 'bert' || architecture === 'nomic-bert';
  const kvHeads = 1 + below(8);
  const heads = isEncoder ? kvHeads : kvHeads * (1 + below(16));
  const widest = 8 * (1 + below(pick([8, 16, 32, 64])));
  // A row of heads has whole blocks of columns.
  const headDim = (heads * widest) % 32 === 0 ? widest : 32 * Math.ceil(widest / 32);
  const sizes = {
    heads,
    headDim,
    feedForward: 32 * (1 + below(64)),
    context: pick([64, 700, 4096, 32_768]),
  };
  const type = pick(Object.keys(weightFormats).filter((one): one is GgufType => !one.startsWith('MLC_')));
  if (isEncoder) return { ...sizes, architecture, width: heads * headDim, typed: pick([true, false]) };
  const window = ['lfm2', 'qwen35'].includes(architecture) ? 0 : pick([0, 0, 7, 128, 600]);
  const decoder = { ...sizes, kvHeads, type, width: 32 * (1 + below(32)), window };
  if (architecture === 'gemma4')
    return { ...decoder, architecture, nearDim: 32 * (1 + below(8)), layerInput: pick([0, 32, 256]) };
  return {
    ...decoder,
    architecture,
    layers: architecture === 'smollm3' ? 4 : 2,
    rotary: 4 * (1 + below(headDim / 4)),
    biases: pick([true, false]),
    untied: pick([true, false]),
    ...(architecture === 'qwen3moe' || architecture === 'gpt-oss'
      ? { experts: { count: 2 + below(63), used: 1 + below(2), feedForward: 32 * (1 + below(16)) } }
      : {}),
    state: {
      kernel: 2 + below(7),
      biases: pick([true, false]),
      keyHeads: pick([1, 2, 4]),
      valueHeads: 4,
      keyDim: pick([16, 32, 64, 128]),
      valueDim: 8 * (1 + below(16)),
    },
  };
}
