import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { BenchModel } from '../models.ts';
import { type MlcQuantization, writeMlcModel } from './mlc-model.ts';
import { writeOnnxModel } from './onnx-model.ts';
import type { Setting } from './protocol.ts';

export const peerIds = ['llama.cpp', 'web-llm', 'onnxruntime'] as const;
export type PeerId = (typeof peerIds)[number];

/** The ratio that a figure shall reach, by the kind of adapter; null where it is only listed. */
export interface Goal {
  readonly software: number | null;
  readonly gpu: number | null;
}

/** One kind of generation that both are asked for, round after round, and the figures it gives. */
export interface Measurement {
  readonly promptTokens: number;
  /** 1 where only the prompt is of interest. */
  readonly answerTokens: number;
  /** Small models are over in a second and vary more: they get more rounds, as long as the budget lasts. */
  readonly leastRounds: number;
  readonly mostRounds: number;
  readonly budgetMs: number;
  /** Absent where the answer has one token. */
  readonly decodeGoal?: Goal;
  readonly prefillGoal: Goal;
}

/** Who lathe is compared with, and how. */
export interface Peer {
  readonly id: PeerId;
  readonly script: URL;
  /** Undefined when it can run; else what is missing. */
  missing(options: PeerOptions): string | undefined;
  /** Models compared unless others are asked for. */
  readonly models: readonly string[];
  runs(model: BenchModel): boolean;
  measurements(model: BenchModel): readonly Measurement[];
  /** What its process is started with: makes a file of the model's shape where it does not read GGUF. */
  prepare(model: BenchModel, options: PeerOptions): Promise<Setting>;
  /** Environment for a software adapter. */
  readonly softwareEnv?: Readonly<Record<string, string>>;
}

export interface PeerOptions {
  /** A model library of web-llm for Qwen2-0.5B: its npm package has none. */
  readonly webLlmLib?: string | undefined;
}

const listed: Goal = { software: null, gpu: null };
const fullEffort = { leastRounds: 5, mostRounds: 15, budgetMs: 20_000, answerTokens: 33 };
/** Minutes a round for a peer on a software adapter. */
const slowEffort = { leastRounds: 3, mostRounds: 3, budgetMs: 0 };

const installed = (name: string): boolean =>
  existsSync(fileURLToPath(new URL(`./node_modules/${name}/package.json`, import.meta.url)));
const missingPackage = (name: string): string | undefined =>
  installed(name) ? undefined : 'is not installed; first: npm --prefix bench/peers ci';

const llamaCpp: Peer = {
  id: 'llama.cpp',
  script: new URL('./llama-cpp.ts', import.meta.url),
  missing: () => missingPackage('node-llama-cpp'),
  models: ['tiny', 'smollm2-135m-q8_0', 'smollm2-135m-q4_0'],
  runs: () => true,
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
    const long = { ...fullEffort, leastRounds: 3, mostRounds: 7, promptTokens: 512, answerTokens: 1 };
    return [
      { ...fullEffort, promptTokens: 128, decodeGoal, prefillGoal },
      { ...long, prefillGoal: name === 'tiny' ? listed : prefillGoal },
    ];
  },
  prepare: (model) => Promise.resolve({ modelPath: model.path }),
  // It passes over software devices unless one is named.
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
    return missingPackage('@mlc-ai/web-llm');
  },
  models: ['qwen2.5-0.5b-q4_0'],
  // A library is compiled for one shape.
  runs: ({ name }) => name === 'qwen2.5-0.5b-q4_0',
  measurements: () => [
    {
      ...slowEffort,
      promptTokens: 32,
      answerTokens: 9,
      decodeGoal: { software: 8, gpu: 1.3 },
      prefillGoal: listed,
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

/** The library's name tells for which weights it was compiled. */
function quantizationOf(library: string): MlcQuantization {
  const [found] = /q4f(16|32)_1/.exec(library) ?? [];
  if (found === 'q4f16_1' || found === 'q4f32_1') return found;
  throw new Error(`--web-llm-lib: expected q4f16_1 or q4f32_1 in the file's name, got '${library}'`);
}

const onnxruntime: Peer = {
  id: 'onnxruntime',
  script: new URL('./onnxruntime.ts', import.meta.url),
  missing: () => missingPackage('onnxruntime-node'),
  models: ['smollm2-135m-q4_0'],
  runs: ({ shape }) =>
    shape?.architecture === 'llama' && shape.type === 'Q4_0' && shape.tiedEmbeddings === true,
  measurements: () => [{ ...fullEffort, promptTokens: 128, decodeGoal: listed, prefillGoal: listed }],
  async prepare({ path, shape }) {
    if (!shape) throw new Error('onnxruntime needs a known shape');
    const modelPath = path.replace(/\.gguf$/, '.onnx');
    if (!existsSync(modelPath)) await writeOnnxModel(modelPath, shape);
    return { modelPath, layers: shape.layers };
  },
};

export const peers: readonly Peer[] = [llamaCpp, webLlm, onnxruntime];

/** What a first try needs: fewer rounds, shorter answers, and of several prompts the first. */
export const quickly = ([first]: readonly Measurement[]): readonly Measurement[] =>
  first
    ? [
        {
          ...first,
          leastRounds: 2,
          mostRounds: 2,
          budgetMs: 0,
          answerTokens: Math.min(first.answerTokens, 9),
        },
      ]
    : [];
