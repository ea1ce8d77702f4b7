/**
 * The report that `npm run bench -- --json FILE` writes. Times are in ms, sizes in bytes, rates per second; figures are
 * medians with four significant digits.
 */
import type { AdapterFacts } from '../src/engine/index.ts';
import type { CopyBandwidth } from '../src/lab/bench/copy-bandwidth.ts';
import type { Figure } from './figures.ts';
import type { GrowthFigures } from './growth.ts';
import type { Machine, Versions } from './machine.ts';
import type { MemoryFigures } from './memory.ts';
import type { StepFigures } from './nodes.ts';
import type { OverheadFigures } from './overhead.ts';
import type { PeerFigure } from './peers/compare.ts';
import type { PrefixFigures } from './prefix.ts';
import type { StartUpFigures } from './start-up.ts';
import type { StreamFigures } from './streams.ts';

export interface BenchReport {
  /** Changes when the meaning of a member changes. */
  readonly schema: 'lathe-bench/1';
  /** ISO 8601. */
  readonly date: string;
  /** Few rounds and short answers, for trying things out. */
  readonly quick: boolean;
  readonly versions: Versions;
  readonly machine: Machine;
  /** One-minute load average before the first and after the last measurement; the bench itself adds to the second. */
  readonly loadAverage: { readonly before: number; readonly after: number };
  readonly adapter: AdapterFacts;
  readonly models: readonly ModelFigures[];
  /** For the host with the embedded model; absent when only other models were measured. */
  readonly overhead?: OverheadFigures;
  readonly startUp?: StartUpFigures;
  /** The figures that have a goal. */
  readonly figures: readonly Figure[];
  /** Present with `--peers`. */
  readonly peers?: readonly PeerFigure[];
}

export interface ModelFigures {
  readonly model: string;
  readonly randomWeights: boolean;
  readonly architecture: string;
  readonly quantization: string;
  readonly parameters: number;
  readonly fileBytes: number;
  /** GPU memory of the weights. */
  readonly weightBytes: number;
  readonly load: LoadFigures;
  readonly copyBandwidth: CopyBandwidth;
  /** Figures by prompt length. */
  readonly contexts: readonly ContextFigures[];
  /** GPU time by node in a decode step and in a prefill step. Empty without timestamp queries. */
  readonly steps: readonly StepFigures[];
  /** Parallel answers. */
  readonly streams: readonly StreamFigures[];
  /** Absent when the context is too short. */
  readonly prefix?: PrefixFigures;
  /** Decode after long contexts. */
  readonly growth: readonly GrowthFigures[];
  /** GPU memory in addition to the weights, by context. */
  readonly memory: readonly MemoryFigures[];
  /** Cores that other processes kept busy on average; 0 on an idle machine. */
  readonly othersCores: number;
}

export interface LoadFigures {
  /** First load in this process, with the driver cache as it is. */
  readonly firstMs: number;
  /** Second load, with a warm driver cache. */
  readonly warmMs: number;
  /** Second load by stage. */
  readonly stages: Readonly<Record<string, number>>;
}

export interface ContextFigures {
  readonly context: number;
  readonly firstTokenMs: number;
  /** Prompt tokens divided by the time to the first token. */
  readonly prefillTokensPerSecond: number;
  /** Decode rate directly after the prompt. */
  readonly decodeTokensPerSecond: number;
  readonly answerTokens: number;
  readonly rounds: number;
  readonly dispatchesPerToken: number;
  readonly bytesPerToken: { readonly weights: number; readonly cache: number };
  /** Bytes per token times tokens per second, as a share of the copy bandwidth, 0 to 1. */
  readonly partOfCopyBandwidth: number;
}
