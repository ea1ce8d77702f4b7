/**
 * What `npm run bench -- --json FILE` writes: one `BenchReport`. Times are in ms, sizes in bytes, rates by the
 * second; figures are medians, to four significant digits.
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
  /** Changes when a member changes its meaning. */
  readonly schema: 'lathe-bench/1';
  /** ISO 8601. */
  readonly date: string;
  /** Few rounds and short answers: for trying things out. */
  readonly quick: boolean;
  readonly versions: Versions;
  readonly machine: Machine;
  /** Of the last minute, before the first and after the last measurement; the bench itself adds to the second. */
  readonly loadAverage: { readonly before: number; readonly after: number };
  readonly adapter: AdapterFacts;
  readonly models: readonly ModelFigures[];
  /** Of the host with the embedded model; absent where only other models were measured. */
  readonly overhead?: OverheadFigures;
  readonly startUp?: StartUpFigures;
  /** Those of the figures above that have a goal. */
  readonly figures: readonly Figure[];
  /** With `--peers`. */
  readonly peers?: readonly PeerFigure[];
}

export interface ModelFigures {
  readonly model: string;
  readonly randomWeights: boolean;
  readonly architecture: string;
  readonly quantization: string;
  readonly parameters: number;
  readonly fileBytes: number;
  /** Everything the weights take on the GPU. */
  readonly weightBytes: number;
  readonly load: LoadFigures;
  readonly copyBandwidth: CopyBandwidth;
  /** Figures by how many tokens the prompt has. */
  readonly contexts: readonly ContextFigures[];
  /** Where the GPU's time goes, in a decode step and in a prefill step. Empty without timestamp queries. */
  readonly steps: readonly StepFigures[];
  /** Several answers at once. */
  readonly streams: readonly StreamFigures[];
  /** Absent where the context does not hold it. */
  readonly prefix?: PrefixFigures;
  /** Decode behind long contexts. */
  readonly growth: readonly GrowthFigures[];
  /** Beside the weights, by context. */
  readonly memory: readonly MemoryFigures[];
  /** Cores that other processes kept busy meanwhile, on average: 0 on an idle machine. */
  readonly othersCores: number;
}

export interface LoadFigures {
  /** Of the first load in this process: with whatever the driver had in its cache. */
  readonly firstMs: number;
  /** Of the second: the driver has compiled everything before. */
  readonly warmMs: number;
  /** Of the second, by stage. */
  readonly stages: Readonly<Record<string, number>>;
}

export interface ContextFigures {
  readonly context: number;
  readonly firstTokenMs: number;
  /** Prompt tokens by the time to the first token. */
  readonly prefillTokensPerSecond: number;
  /** Right behind that prompt. */
  readonly decodeTokensPerSecond: number;
  readonly answerTokens: number;
  readonly rounds: number;
  readonly dispatchesPerToken: number;
  readonly bytesPerToken: { readonly weights: number; readonly cache: number };
  /** Bytes a token by tokens a second, as a part of the copy bandwidth: 0 to 1. */
  readonly partOfCopyBandwidth: number;
}
