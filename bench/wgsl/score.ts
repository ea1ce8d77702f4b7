/** Scores of lathe-bench, from times. */
import { median } from '../statistics.ts';
import type { AdapterPeaks } from '../../src/lab/bench/roofline.ts';
import type { Work } from './tasks.ts';

/** The least time that the work can take, at the bandwidth of copies and the rate of f32 arithmetic, in ms. */
export const rooflineMs = ({ flops, bytes }: Work, { gbps, gflops }: AdapterPeaks): number =>
  Math.max(bytes / gbps, flops / gflops) / 1e6;

/** Geometric mean; NaN of nothing. */
export const geometricMean = (values: readonly number[]): number =>
  Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0) / values.length);

/** The median of how many times a contestant was as fast as another one in the same round. */
export const speedUp = (of: readonly number[], over: readonly number[]): number =>
  median(of.map((ms, round) => (over[round] ?? Number.NaN) / ms));

export interface Scored {
  /** Speed-up over the baseline; undefined where the kernel is wrong or absent. */
  readonly speedUp?: number | undefined;
}

export interface Summary {
  readonly tasks: number;
  readonly correct: number;
  /** Share of tasks that are correct and at least so many times as fast as the baseline. */
  readonly fast: Readonly<Record<string, number>>;
  /** Geometric mean of the speed-ups; a wrong or absent kernel counts as the baseline, 1. */
  readonly speedUp: number;
}

const thresholds = [1, 2, 5];

export function summarize(scored: readonly Scored[]): Summary {
  const correct = scored.flatMap((one) => one.speedUp ?? []);
  return {
    tasks: scored.length,
    correct: correct.length,
    fast: Object.fromEntries(
      thresholds.map((factor) => [
        String(factor),
        correct.filter((value) => value >= factor).length / scored.length,
      ]),
    ),
    speedUp: geometricMean(scored.map((one) => Math.max(one.speedUp ?? 1, Number.MIN_VALUE))),
  };
}
