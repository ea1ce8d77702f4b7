import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { BenchModel } from '../models.ts';
import { type MlcQuantization, writeMlcModel } from './mlc-model.ts';
import { writeOnnxModel } from './onnx-model.ts';
import type { Setting } from './protocol.ts';

export const peerIds = ['llama.cpp', 'web-llm', 'onnxruntime'] as const;
export type PeerId = (typeof peerIds)[number];

/** Goal of a ratio by kind of adapter; null: no goal. */
export interface Goal {
  readonly software: number | null;
  readonly gpu: number | null;
}

/** A kind of generation that both sides repeat, and the goals of its figures. */
export interface Measurement {
  readonly promptTokens: number;
  /** 1 when only prefill is measured. */
  readonly answerTokens: number;
  /** Small models are fast and vary more, so they get more rounds within the time budget. */
  readonly minRounds: number;
  readonly maxRounds: number;
  readonly budgetMs: number;
  /** Absent when the answer has one token. */
  readonly decodeGoal?: Goal;
  readonly prefillGoal: Goal;
}

/** An engine that lathe is compared with. */
export interface Peer {
  readonly id: PeerId;
  readonly script: URL;
  /** What is missing to run the peer; undefined when it can run. */
  missing(options: PeerOptions): string | undefined;
  /** Default models. */
  readonly models: readonly string[];
  supports(model: BenchModel): boolean;
  measurements(model: BenchModel): readonly Measurement[];
  /** Returns the settings of its process. Generates a model file of the same shape when the peer does not read GGUF. */
  prepare(model: BenchModel, options: PeerOptions): Promise<Setting>;
  /** Environment for a software adapter. */
  readonly softwareEnv?: Readonly<Record<string, string>>;
}

export interface PeerOptions {
  /** Path of web-llm's model library for Qwen2-0.5B, which its npm package does not contain. */
  readonly webLlmLib?: string | undefined;
}

const noGoal: Goal = { software: null, gpu: null };
const fullEffort = { minRounds: 5, maxRounds: 15, budgetMs: 20_000, answerTokens: 33 };
/** For peers that need minutes per round on a software adapter. */
const slowEffort = { minRounds: 3, maxRounds: 3, budgetMs: 0 };

const isInstalled = (name: string): boolean =>
  existsSync(fileURLToPath(new URL(`./node_modules/${name}/package.json`, import.meta.url)));
const packageProblem = (name: string): string | undefined =>
  isInstalled(name) ? undefined : 'is not installed; first: npm --prefix bench/peers ci';

const llamaCpp: Peer = {
  id: 'llama.cpp',
  script: new URL('./llama-cpp.ts', import.meta.url),
  missing: () => packageProblem('node-llama-cpp'),
  models: ['tiny', 'smollm2-135m-q8_0', 'smollm2-135m-q4_0'],
  supports: () => true,
  measurements({ name }) {
    const [decodeGoal, prefillGoal]: [Goal, Goal] =
      name === 'tiny'
        ? [
            { software: 5, gpu: null },
            { software: 2, gpu: null },
          ]
        : [
            { software: 4, gpu: 1.3 },
            { software: 3, gpu: 1 },
          ];
    const long = { ...fullEffort, minRounds: 3, maxRounds: 7, promptTokens: 512, answerTokens: 1 };
    return [
      { ...fullEffort, promptTokens: 128, decodeGoal, prefillGoal },
      { ...long, prefillGoal: name === 'tiny' ? noGoal : prefillGoal },
    ];
  },
  prepare: (model) => Promise.resolve({ modelPath: model.path }),
  // llama.cpp skips software devices unless one is named.
  softwareEnv: { GGML_VK_VISIBLE_DEVICES: '0' },
};

const webLlm: Peer = {
  id: 'web-llm',
  script: new URL('./web-llm.ts', import.meta.url),
  missing({ webLlmLib }) {
    if (webLlmLib === undefined) {
      return 'needs --web-llm-lib PATH: a library of Qwen2-0.5B, which npm does not have';
    }
    if (!existsSync(webLlmLib)) return `finds no file '${webLlmLib}' (--web-llm-lib)`;
    return packageProblem('@mlc-ai/web-llm');
  },
  models: ['qwen2.5-0.5b-q4_0'],
  // A model library is compiled for one shape.
  supports: ({ name }) => name === 'qwen2.5-0.5b-q4_0',
  measurements: () => [
    {
      ...slowEffort,
      promptTokens: 32,
      answerTokens: 9,
      decodeGoal: { software: 8, gpu: 1.3 },
      prefillGoal: noGoal,
    },
  ],
  async prepare({ path, shape }, { webLlmLib: library }) {
    if (library === undefined || !shape) throw new Error('web-llm needs a model library and a known shape');
    const quantization = quantizationOf(library);
    const modelPath = path.replace(/\.gguf$/, `-${quantization}`);
    if (!existsSync(modelPath)) await writeMlcModel(modelPath, shape, quantization);
    return { modelPath, library };
  },
};

/** Quantization that a library was compiled for, from its file name. */
function quantizationOf(library: string): MlcQuantization {
  const [quantization] = /q4f(16|32)_1/.exec(library) ?? [];
  if (quantization === 'q4f16_1' || quantization === 'q4f32_1') return quantization;
  throw new Error(`--web-llm-lib: expected q4f16_1 or q4f32_1 in the file's name, got '${library}'`);
}

const onnxruntime: Peer = {
  id: 'onnxruntime',
  script: new URL('./onnxruntime.ts', import.meta.url),
  missing: () => packageProblem('onnxruntime-node'),
  models: ['smollm2-135m-q4_0'],
  supports: ({ shape }) =>
    shape?.architecture === 'llama' && shape.type === 'Q4_0' && shape.tiedEmbeddings === true,
  measurements: () => [{ ...fullEffort, promptTokens: 128, decodeGoal: noGoal, prefillGoal: noGoal }],
  async prepare({ path, shape }) {
    if (!shape) throw new Error('onnxruntime needs a known shape');
    const modelPath = path.replace(/\.gguf$/, '.onnx');
    if (!existsSync(modelPath)) await writeOnnxModel(modelPath, shape);
    return { modelPath, layers: shape.layers };
  },
};

export const peers: readonly Peer[] = [llamaCpp, webLlm, onnxruntime];

/** A quick variant: few rounds, short answers, and only the first measurement. */
export const quickMeasurements = ([first]: readonly Measurement[]): readonly Measurement[] =>
  first
    ? [
        {
          ...first,
          minRounds: 2,
          maxRounds: 2,
          budgetMs: 0,
          answerTokens: Math.min(first.answerTokens, 9),
        },
      ]
    : [];
