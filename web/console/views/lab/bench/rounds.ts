/** Time ratios of the rounds of a bench. */
import type { BenchRound } from './runs.ts';

type Sample = BenchRound['samples'][number];

/** A selectable measurement: decode over all contexts, prefill, or decode at one context. */
export interface RoundSelection {
  readonly name: string;
  readonly title: string;
  readonly matches: (sample: Sample) => boolean;
}

export function roundSelections(rounds: readonly BenchRound[]): readonly RoundSelection[] {
  const [first] = rounds;
  const contexts = first?.samples.filter(({ kind }) => kind === 'decode').map(({ context }) => context) ?? [];
  return [
    { name: 'decode', title: 'Decode, all contexts', matches: ({ kind }) => kind === 'decode' },
    { name: 'prefill', title: 'Prompt', matches: ({ kind }) => kind === 'prefill' },
    ...(contexts.length > 1
      ? contexts.map((context) => ({
          name: `decode-${context}`,
          title: `Decode at ${context}`,
          matches: (sample: Sample) => sample.kind === 'decode' && sample.context === context,
        }))
      : []),
  ];
}

export interface Ratios {
  /** By round, computed as on the host: geometric mean of both built-in runs, divided by the bound run. */
  readonly bound: readonly number[];
  /** By round: first built-in run divided by the second. */
  readonly control: readonly number[];
  /** Median of `bound` up to each round. */
  readonly median: readonly number[];
}

export function ratiosOf(rounds: readonly BenchRound[], cell: RoundSelection): Ratios {
  const mean = (valueOf: (sample: Sample) => number) =>
    rounds.map(({ samples }) => {
      const logs = samples.filter(cell.matches).map((sample) => Math.log(valueOf(sample)));
      return Math.exp(logs.reduce((sum, one) => sum + one, 0) / Math.max(1, logs.length));
    });
  const bound = mean(
    ({ baseline_ms, control_ms, bound_ms }) => Math.sqrt(baseline_ms * control_ms) / bound_ms,
  );
  return {
    bound,
    control: mean(({ baseline_ms, control_ms }) => baseline_ms / control_ms),
    median: bound.map((_, index) => medianOf(bound.slice(0, index + 1))),
  };
}

function medianOf(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? upper)) / 2;
}
