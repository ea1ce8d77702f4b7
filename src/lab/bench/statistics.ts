import type { Interval } from '../types.ts';
import { randomInteger, type Random } from '../../util/random.ts';

/** Times of one measurement: one element for each round. All arrays have the same length. */
export interface PairedTimes {
  readonly baseline: readonly number[];
  readonly bound: readonly number[];
  /** Second run of the baseline. */
  readonly control: readonly number[];
}

export interface Estimate {
  readonly ratio: number;
  readonly ci95: Interval;
}

/** Median of at least one value. */
export function median(values: readonly number[]): number {
  const sorted = Float64Array.from(values).sort();
  const middle = sorted.length >> 1;
  const upper = sorted[middle];
  if (upper === undefined) throw new Error('median: expected at least one value, got none');
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? upper)) / 2;
}

/**
 * Ratio of the baseline's time to the bound arm's, and of the baseline to the control, each with a 95% interval.
 *
 * The estimate is the median of the logarithms of the ratios within rounds, `baseline / bound` and `control / bound`
 * pooled; for several measurements, the mean of their medians. Noise of a shared machine only slows down, in spikes
 * and for seconds at a time. Within a round it affects the arms in random order, so each ratio is distributed
 * symmetrically around the true value even if times are skewed, and the median is unbiased. The median tolerates
 * outliers in nearly half of the rounds; means, also trimmed ones, lose most of their power. Averaging the two
 * baselines would add bias, because the mean of two skewed values is not distributed like a single one.
 *
 * The interval is a bootstrap over whole rounds, with all measurements of a round together, because noise affects all
 * of them. The random order removes the correlation between rounds, so block resampling is not needed. The percentiles
 * are widened from the normal to Student's t distribution, because plain ones are too narrow for few rounds.
 */
export function estimateRatio(
  series: readonly PairedTimes[],
  random: Random,
  resamples = 2000,
): Estimate & { readonly control: Estimate } {
  const rounds = series[0]?.bound.length ?? 0;
  if (rounds === 0) throw new Error('estimateRatio: expected at least one round, got none');
  const ratios = boundLogs(series, rounds);
  const controls = series.map(({ baseline, control }) => sortedLogs(ratiosOf(baseline, control), rounds));
  const resampled = { ratios: new Float64Array(resamples), controls: new Float64Array(resamples) };
  resampleRounds({ rounds, resamples, random }, (n, counts) => {
    resampled.ratios[n] = meanOfMedians(ratios, counts);
    resampled.controls[n] = meanOfMedians(controls, counts);
  });
  const onceEach = new Uint16Array(rounds).fill(1);
  const tail = widenedTail(rounds);
  return {
    ...estimate(meanOfMedians(ratios, onceEach), resampled.ratios, tail),
    control: estimate(meanOfMedians(controls, onceEach), resampled.controls, tail),
  };
}

/**
 * Ratio of the ratios of two benches, `after` divided by `before`, with a 95% interval. Each is relative to the baseline of its own
 * bench, so a machine that is slower at one of the times does not change it. The rounds of the two are resampled
 * independently.
 */
export function estimateChange(
  before: readonly PairedTimes[],
  after: readonly PairedTimes[],
  random: Random,
  resamples = 2000,
): Estimate {
  const arms = [before, after].map((series) => {
    const rounds = series[0]?.bound.length ?? 0;
    if (rounds === 0) throw new Error('estimateChange: expected at least one round, got none');
    const logs = boundLogs(series, rounds);
    const resampled = new Float64Array(resamples);
    resampleRounds({ rounds, resamples, random }, (n, counts) => {
      resampled[n] = meanOfMedians(logs, counts);
    });
    return { rounds, log: meanOfMedians(logs, new Uint16Array(rounds).fill(1)), resampled };
  });
  const [first, second] = arms as [(typeof arms)[number], (typeof arms)[number]];
  const changes = second.resampled.map((log, n) => log - (first.resampled[n] as number));
  return estimate(second.log - first.log, changes, widenedTail(Math.min(first.rounds, second.rounds)));
}

/** Logarithms of `baseline / bound` and `control / bound`, pooled, of each measurement. */
const boundLogs = (series: readonly PairedTimes[], rounds: number): Logs[] =>
  series.map(({ baseline, bound, control }) =>
    sortedLogs([...ratiosOf(baseline, bound), ...ratiosOf(control, bound)], rounds),
  );

/** @param use called with the number of times that each round was drawn */
function resampleRounds(
  { rounds, resamples, random }: { rounds: number; resamples: number; random: Random },
  use: (n: number, counts: Uint16Array) => void,
): void {
  const counts = new Uint16Array(rounds);
  for (let n = 0; n < resamples; n++) {
    counts.fill(0);
    for (let k = 0; k < rounds; k++) (counts[randomInteger(random, rounds)] as number) += 1;
    use(n, counts);
  }
}

/** Logarithms in ascending order, with the round of each. */
interface Logs {
  readonly values: Float64Array;
  readonly rounds: Uint16Array;
}

const ratiosOf = (one: readonly number[], other: readonly number[]): number[] =>
  one.map((ms, round) => ms / (other[round] as number));

/** @param ratios one for each round, or several sequences of one for each round */
function sortedLogs(ratios: readonly number[], rounds: number): Logs {
  const logs = ratios.map((ratio, index) => ({ value: Math.log(ratio), round: index % rounds }));
  logs.sort((a, b) => a.value - b.value);
  return {
    values: Float64Array.from(logs, ({ value }) => value),
    rounds: Uint16Array.from(logs, ({ round }) => round),
  };
}

/** @param counts number of times that each round was resampled */
function meanOfMedians(series: readonly Logs[], counts: Uint16Array): number {
  let sum = 0;
  for (const logs of series) sum += weightedMedian(logs, counts);
  return sum / series.length;
}

function weightedMedian({ values, rounds }: Logs, counts: Uint16Array): number {
  const half = values.length / 2;
  let cumulative = 0;
  let lower: number | undefined;
  for (let index = 0; index < values.length; index++) {
    const count = counts[rounds[index] as number] as number;
    if (count === 0) continue;
    const value = values[index] as number;
    if (lower !== undefined) return (lower + value) / 2;
    cumulative += count;
    if (cumulative > half) return value;
    if (cumulative === half) lower = value;
  }
  throw new Error('median: expected at least one value, got none');
}

function estimate(log: number, resampled: Float64Array, tail: number): Estimate {
  resampled.sort();
  const quantile = (fraction: number): number => {
    const position = fraction * (resampled.length - 1);
    const low = resampled[Math.floor(position)] as number;
    const high = resampled[Math.ceil(position)] as number;
    return Math.exp(low + (high - low) * (position - Math.floor(position)));
  };
  return { ratio: Math.exp(log), ci95: { low: quantile(tail), high: quantile(1 - tail) } };
}

/** Fraction of the resamples to exclude on each side. */
function widenedTail(rounds: number): number {
  if (rounds < 2) return 0;
  return normalTail(Math.sqrt(rounds / (rounds - 1)) * studentQuantile(rounds - 1));
}

/** 97.5% quantile of Student's t (Cornish-Fisher expansion; error 0.3% at 5 degrees of freedom). */
function studentQuantile(degreesOfFreedom: number): number {
  const z = 1.959964;
  return (
    z +
    (z ** 3 + z) / (4 * degreesOfFreedom) +
    (5 * z ** 5 + 16 * z ** 3 + 3 * z) / (96 * degreesOfFreedom ** 2) +
    (3 * z ** 7 + 19 * z ** 5 + 17 * z ** 3 - 15 * z) / (384 * degreesOfFreedom ** 3)
  );
}

/** Upper tail probability of the normal distribution for `x` > 0 (Abramowitz and Stegun 26.2.17). */
function normalTail(x: number): number {
  const t = 1 / (1 + 0.2316419 * x);
  const series =
    t * (0.31938153 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))));
  return (Math.exp((-x * x) / 2) / Math.sqrt(2 * Math.PI)) * series;
}

/** Change of a series of times from its start to its end. */
export interface Drift {
  /** Relative change by the median slope (Theil-Sen): 0.1 means 10% more at the end. */
  readonly change: number;
  /** Whether the trend is significant (Mann-Kendall test, 1%). */
  readonly isSignificant: boolean;
}

export function estimateDrift(values: readonly number[]): Drift {
  const n = values.length;
  if (n < 3) return { change: 0, isSignificant: false };
  const slopes: number[] = [];
  let rising = 0;
  for (let i = 0; i < n; i++) {
    for (let j = i + 1; j < n; j++) {
      const rise = Math.log((values[j] as number) / (values[i] as number));
      slopes.push(rise / (j - i));
      rising += Math.sign(rise);
    }
  }
  const deviation = Math.sqrt((n * (n - 1) * (2 * n + 5)) / 18);
  const z = (Math.abs(rising) - 1) / deviation;
  return { change: Math.exp(median(slopes) * (n - 1)) - 1, isSignificant: z > 2.576 };
}
