import { mkdir, rename, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type ModelShape, realShapes, writeRandomModel } from '../test/support/random-model.ts';

type Shape = Omit<ModelShape, 'type'>;

const smollm2: Shape = {
  architecture: 'llama',
  layers: 30,
  embedding: 576,
  heads: 9,
  kvHeads: 3,
  headSize: 64,
  feedForward: 1536,
  vocab: 49_152,
  context: 8192,
  tiedEmbeddings: true,
  ropeBase: 100_000,
};

/** Shapes of real models. Their weights are random, which does not affect timing. */
const shapes: Readonly<Record<string, Shape>> = {
  'smollm2-135m': smollm2,
  // Pairs for speculation: a target and a draft that always agree, and a draft that never does.
  'agreeing-135m': { ...smollm2, telling: 2 },
  'agreeing-draft': { ...smollm2, layers: 2 },
  'foreign-draft': { ...smollm2, layers: 2, seed: 77 },
  'qwen2.5-0.5b': realShapes.qwen25_05b,
  'qwen3-0.6b': realShapes.qwen3_06b,
  // With a small vocabulary, so that most of a step is the layer.
  'qwen3-layer': { ...realShapes.qwen3_06b, layers: 1, vocab: 4096 },
  'lfm2-350m': realShapes.lfm2_350m,
  'qwen3.5-0.8b': realShapes.qwen35_08b,
  'qwen3-1.7b': { ...realShapes.qwen3_06b, embedding: 2048, feedForward: 6144 },
  'llama3.2-1b': realShapes.llama32_1b,
  'llama3.2-3b': {
    ...realShapes.llama32_1b,
    layers: 28,
    embedding: 3072,
    heads: 24,
    headSize: 128,
  },
  'llama3.1-8b': {
    ...realShapes.llama32_1b,
    layers: 32,
    embedding: 4096,
    headSize: 128,
    feedForward: 14_336,
    tiedEmbeddings: false,
  },
  // Two layers of the models with 30 and 20 billion parameters, which have 48 and 24 layers.
  'qwen3moe-2-layers': {
    architecture: 'qwen3moe',
    layers: 2,
    embedding: 2048,
    heads: 32,
    kvHeads: 4,
    headSize: 128,
    feedForward: 6144,
    experts: { count: 128, used: 8, feedForward: 768 },
    vocab: 151_936,
    context: 40_960,
    tiedEmbeddings: true,
    ropeBase: 1_000_000,
  },
  // Ten of the 35 layers of E2B, the last five with a shared KV cache, and an eighth of its vocabulary.
  'gemma4-e2b-10-layers': {
    architecture: 'gemma4',
    layers: 10,
    embedding: 1536,
    heads: 8,
    kvHeads: 1,
    headSize: 512,
    feedForward: 6144,
    vocab: 32_768,
    context: 131_072,
    gemma4: {
      nearDim: 256,
      sharedFeedForward: 12_288,
      window: 512,
      every: 5,
      shared: 5,
      layerInput: 256,
      cap: 30,
    },
  },
  'gpt-oss-2-layers': {
    architecture: 'gpt-oss',
    layers: 2,
    embedding: 2880,
    heads: 64,
    kvHeads: 8,
    headSize: 64,
    feedForward: 2880,
    experts: { count: 32, used: 4, feedForward: 2880, type: 'MXFP4' },
    window: 128,
    vocab: 201_088,
    context: 131_072,
    tiedEmbeddings: true,
    ropeBase: 150_000,
  },
};
const quantizationTypes = { q4_0: 'Q4_0', q4_k: 'Q4_K', q8_0: 'Q8_0', f16: 'F16' } as const;
type TypeName = keyof typeof quantizationTypes;

const root = fileURLToPath(new URL('..', import.meta.url));
const cache = join(root, '.cache', 'bench');
const embedded = join(root, 'models', 'lathe-tiny-q8_0.gguf');

/** Models of the figures in the documentation. */
export const documentedModels = ['tiny', 'smollm2-135m-q8_0', 'smollm2-135m-q4_0'];

/** Additional models, to show growth with model size. */
export const sizeModels = ['qwen2.5-0.5b-q4_0'];
export const largeModels = ['llama3.2-1b-q4_0'];

/** Model names, for help texts and messages. */
export const modelNames = `tiny or {${Object.keys(shapes).join('|')}}-{${Object.keys(quantizationTypes).join('|')}}`;

export interface BenchModel {
  readonly name: string;
  readonly path: string;
  /** Whether the weights are random instead of trained. */
  readonly randomWeights: boolean;
  /** Shape of a generated model. */
  readonly shape?: ModelShape;
}

/**
 * Finds a model by bench name or file path. Named models are generated on first use, always with the same bytes.
 * @throws Error that lists the known names
 */
export async function findModel(nameOrPath: string): Promise<BenchModel> {
  if (nameOrPath === 'tiny') return { name: 'tiny', path: embedded, randomWeights: false };
  const namedShape = shapeAndType(nameOrPath);
  if (namedShape) {
    return {
      name: nameOrPath,
      path: await generateModel(nameOrPath, namedShape),
      randomWeights: true,
      shape: namedShape,
    };
  }
  if (await exists(nameOrPath)) {
    return { name: basename(nameOrPath, '.gguf'), path: nameOrPath, randomWeights: false };
  }
  throw new Error(`no model or file '${nameOrPath}' (the path of a GGUF file, or ${modelNames})`);
}

function shapeAndType(name: string): ModelShape | undefined {
  const separator = name.lastIndexOf('-');
  const shape = shapes[name.slice(0, separator)];
  const type = quantizationTypes[name.slice(separator + 1) as TypeName];
  return shape && type ? { ...shape, type } : undefined;
}

async function generateModel(name: string, shape: ModelShape): Promise<string> {
  const path = join(cache, `${name}.gguf`);
  if (await exists(path)) return path;
  await mkdir(cache, { recursive: true });
  process.stderr.write(`generating ${name} with random weights (first use only) ...\n`);
  // Written to a temporary name, so that an aborted run leaves no partial file.
  const partial = `${path}.${process.pid}.part`;
  await writeRandomModel(partial, shape);
  await rename(partial, path);
  return path;
}

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    (stats) => stats.isFile(),
    () => false,
  );
