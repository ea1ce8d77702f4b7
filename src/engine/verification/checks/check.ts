/** What a check of an op is given, and what checks share. */
import type { Variant } from '../../../../kernels/assemble.ts';
import type { Graph } from '../../graph/graph.ts';
import type { Memory } from '../../memory/memory.ts';
import type { MatmulFamily } from '../../../../kernels/matmul.ts';
import type { ObservedRange } from '../observe.ts';
import type { Result } from '../judge.ts';
import type { StepRecords } from '../step-records.ts';
import type { WeightSamples } from '../weight-samples.ts';

/** One dispatch of a step that is compared with the CPU oracle. */
export interface Site {
  readonly variant: Variant;
  readonly source: string;
  readonly params: Readonly<Record<string, number>>;
  /** The compared rows: of tokens, or of samples where the dispatch computes those. */
  readonly rows: readonly number[];
  /** True for a dispatch whose rows are samples. */
  readonly isSampled: boolean;
  readonly step: StepRecords;
  readonly memory: Memory;
  readonly graph: Graph;
  readonly family: MatmulFamily;
  readonly weights: WeightSamples;
  /** A row of the table that stays in the file, for a token of the step. */
  streamedRow(id: number): Float32Array | undefined;
  /** Parameter by name. @throws Error where the kernel has none */
  param(name: string): number;
  /** The buffer bound to a name. @throws Error where nothing is bound */
  buffer(name: string): GPUBuffer;
  /** 32-bit words from `first` on, as they are before and after the dispatch. */
  before(name: string, first: number, words: number): ObservedRange;
  after(name: string, first: number, words: number): ObservedRange;
  /** Some of the numbers below `count`: the first, the last and random ones. */
  pick(count: number): readonly number[];
}

/** @param output name of the output, for messages */
export type Report = (output: string, result: Result) => void;

/**
 * Requests what it needs of a dispatch's buffers. Returns a function that is called when the step has run and that reports all
 * compared results; undefined when nothing of this dispatch can be compared.
 */
export type Check = (site: Site) => ((report: Report) => void) | undefined;

/** Half the distance of two neighboring f32 numbers, relative to them. */
export const f32Unit = 2 ** -24;

/** Expected error of a value that was computed with a few operations in f32. */
export const fewRoundings = (value: number): number => 8 * f32Unit * Math.abs(value) + 1e-37;

/** Below this, f16 numbers have less precision, and an adapter may replace them by zero. */
const smallestNormalF16 = 2 ** -14;

/** How much a value changes when an adapter replaces small f16 numbers by zero. */
export const f16Flush = (value: number): number =>
  Math.abs(value) < smallestNormalF16 ? Math.abs(value) : 0;

/** Expected error of a value rounded to f16. */
export const f16Rounding = (value: number): number =>
  Math.max(2 ** -12 * Math.abs(value), 2 ** -26, f16Flush(value));

/** 1 / RMS of values of which `squares` is the sum of squares. */
export const inverseRms = (squares: number, count: number, eps: number): number =>
  1 / Math.sqrt(squares / count + eps);

export function sumOfSquares(values: ArrayLike<number>): number {
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += (values[i] as number) ** 2;
  return sum;
}
