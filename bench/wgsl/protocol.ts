/** Messages between the benchmark and the process that times kernels. */
import type { AdapterPeaks } from '../../src/lab/bench/roofline.ts';
import type { Dims, KernelRegistration } from '../../src/lab/types.ts';

/** Times contestants at one size, in turns. */
export interface TimingJob {
  readonly op: string;
  readonly format?: string | undefined;
  readonly dims: Dims;
  readonly seed: number;
  /** Kernels by the contestant's name. The built-in kernels of the engine compete as well, where there are some. */
  readonly kernels: Readonly<Record<string, KernelRegistration>>;
  readonly rounds: number;
  /** Inputs rotate over copies of at least this size in all, so that no cache holds them. */
  readonly rotatedBytes: number;
}

export interface Timing {
  /** Ms of a dispatch, one for each round. */
  readonly samples: readonly number[];
  /** Why the outputs after the timed dispatches are wrong; absent where they are right. */
  readonly wrong?: string;
}

export interface TimingResult {
  /** By contestant; the built-in kernels are `built-in`. */
  readonly timings: Readonly<Record<string, Timing>>;
  readonly copies: number;
  /** Dims of the case, for the work of the op. */
  readonly dims: Dims;
}

export type ToTimer =
  | { readonly type: 'open'; readonly adapter?: string }
  | ({ readonly type: 'time' } & TimingJob);

export type FromTimer =
  | {
      readonly type: 'opened';
      readonly adapter: string;
      readonly software: boolean;
      readonly peaks: AdapterPeaks;
    }
  | ({ readonly type: 'timed' } & TimingResult)
  | { readonly type: 'failed'; readonly message: string };
