/** The tiny models of test/fixtures/architectures, and the outputs of transformers for them. */
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { openRunner } from '../../src/engine/loading/open-runner.ts';
import { openModelFile } from '../../src/engine/formats/open-model-file.ts';
import { quantizeModelFile } from '../../src/engine/formats/quantize-model-file.ts';
import { buildGraph } from '../../src/engine/models/registry.ts';
import type { ModelFiles } from '../../src/engine/platform.ts';
import type { Runner } from '../../src/engine/execution/runner.ts';
import type { EngineOptions } from '../../src/engine/types.ts';
import { asHardware, testPlatform } from './test-platform.ts';
import { fixtureNames } from './fixture-names.ts';

const root = fileURLToPath(new URL('../fixtures/architectures/', import.meta.url));

/** Rows of numbers in expected.bin. */
export interface Place {
  readonly shape: readonly [rows: number, columns: number];
  /** Offset in floats. */
  readonly offset: number;
}

/**
 * The model's outputs at some positions of a text, all in float32. `rounded` has keys and values in 16 bits, as in
 * our cache, which is almost the only difference from exact logits.
 */
export interface LogitsRun {
  /** The ggml type that all its matrices were quantized to. */
  readonly weights: string;
  /** 'prompt', 'whole context', 'long factors' */
  readonly name: string;
  /** Name of the model, when the folder has several. */
  readonly file?: string;
  readonly ids: readonly number[];
  readonly positions: readonly number[];
  /** The ids whose logits are given; the whole vocabulary when absent. */
  readonly columns?: readonly number[];
  readonly logits: Place;
  readonly rounded: { readonly positions: readonly number[]; readonly logits: Place };
  /** The token with the highest logit of the whole vocabulary at each position, that logit and the runner-up's. */
  readonly top: { readonly ids: readonly number[]; readonly logits: Place };
}

/** Normalized vectors of the inputs. */
export interface EmbeddingRun {
  readonly weights: string;
  readonly embeddings: Place;
  readonly rounded: Place;
}

interface Common {
  readonly vocabulary: number;
  readonly context: number;
}
export interface GeneratingModel extends Common {
  readonly runs: readonly LogitsRun[];
  readonly greedy: { readonly prompt: readonly number[]; readonly ids: readonly number[] };
}
export interface EmbeddingModel extends Common {
  readonly pooling: string;
  readonly inputs: readonly (readonly number[])[];
  readonly runs: readonly EmbeddingRun[];
}

export interface Fixture<Model> {
  readonly name: string;
  readonly model: Model;
  /** Absolute path of a file or folder of it. */
  readonly path: (name: string) => string;
  readonly has: (name: string) => boolean;
  readonly rows: (place: Place) => Float32Array[];
}

function fixtureOf<Model>(name: string, folder = `${root}${name}`): Fixture<Model> {
  const path = (file: string) => `${folder}/${file}`;
  const bytes = readFileSync(path('expected.bin'));
  return {
    name,
    model: JSON.parse(readFileSync(path('expected.json'), 'utf8')) as Model,
    path,
    has: (file) => existsSync(path(file)),
    rows: ({ shape: [rows, columns], offset }) =>
      Array.from({ length: rows }, (_, row) => {
        const first = bytes.byteOffset + (offset + row * columns) * 4;
        return new Float32Array(bytes.buffer.slice(first, first + columns * 4));
      }),
  };
}

const models = fixtureNames.map((name) => fixtureOf<Common>(name));

const isEmbedding = (one: Fixture<Common>): one is Fixture<EmbeddingModel> => 'pooling' in one.model;
const isGenerating = (one: Fixture<Common>): one is Fixture<GeneratingModel> => !isEmbedding(one);
export const generatingModels = models.filter(isGenerating);
export const embeddingModels = models.filter(isEmbedding);
/** One model in every type of ggml; `runs` name the files. */
export const everyType = fixtureOf<Common & { readonly runs: readonly LogitsRun[] }>('types');
/** Models with `changes` in their config.json that give them a sliding window. */
export const windowed = fixtureOf<{
  readonly runs: readonly (LogitsRun & { readonly model: string; readonly changes: object })[];
}>('windows', fileURLToPath(new URL('../fixtures/windows', import.meta.url)));

/** Selects whose kernels run; on a GPU they are the same. */
export const platforms = { software: testPlatform(), hardware: asHardware(testPlatform()) } as const;

export interface LoadOptions extends Omit<EngineOptions, 'model' | 'exact'> {
  readonly on?: keyof typeof platforms;
}

/**
 * Value of `exact`: the kernels for GPUs run as models are usually loaded, so products of prompts round to f16. Without
 * measurements nothing is rounded to 8 bits.
 */
export const exactOn = (on: keyof typeof platforms): boolean => on === 'software';

/**
 * A model on the adapter without tokenizer or scheduler. Only the kernels for GPUs round, to f16.
 * @param model its path, or its files
 */
export async function loadRunner(
  model: string | ModelFiles,
  { on = 'software', ...options }: LoadOptions = {},
): Promise<Runner> {
  const platform = platforms[on];
  const files = typeof model === 'string' ? await platform.modelFiles(model) : model;
  const original = await openModelFile(files);
  const file = options.quantize === undefined ? original : quantizeModelFile(original, options.quantize);
  let runner: Runner | undefined;
  try {
    const graph = await buildGraph(file);
    runner = await openRunner({
      platform,
      options: { ...options, exact: exactOn(on), model: files.name },
      file,
      graph,
    });
    // Some models keep reading their file, so it stays open as long as the device.
    if (runner.needsTokenIds) void runner.gpu.device.lost.then(() => file.close());
    return runner;
  } finally {
    if (!runner?.needsTokenIds) await file.close();
  }
}
