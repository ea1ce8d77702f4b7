/** GPU times of every component in both arms. */
import type { BenchResult } from '../types.ts';
import { hintFor, ratesOf } from './hints.ts';
import type { Arm, BenchPort, TracedDispatch } from './port.ts';
import { type Random, shuffled } from './random.ts';
import { beatsRoof, type Peaks, roofMs, type Work } from './roofline.ts';
import { median } from './statistics.ts';

/** GPU time and work of one component in one arm. */
export interface TracedComponent extends Work {
  readonly id: string;
  readonly kernel: string;
  readonly dispatches: number;
  /** Median GPU time. */
  readonly ms: number;
}

export type TracedArms = Readonly<Record<Arm, readonly TracedComponent[]>>;

/** Traces a decode step at `context` in each arm, `times` times after a warm-up, in random order. */
export async function traceArms(
  port: BenchPort,
  context: number,
  { times, random, signal }: { times: number; random: Random; signal: AbortSignal },
): Promise<TracedArms> {
  const traces: Record<Arm, (readonly TracedDispatch[])[]> = { baseline: [], bound: [] };
  for (let n = 0; n <= times; n++) {
    for (const arm of shuffled(['baseline', 'bound'] as const, random)) {
      signal.throwIfAborted();
      const trace = await port.trace(arm, context);
      if (n > 0) traces[arm].push(trace);
    }
  }
  return { baseline: componentsOf(traces.baseline), bound: componentsOf(traces.bound) };
}

function componentsOf(traces: readonly (readonly TracedDispatch[])[]): TracedComponent[] {
  const times = traces.map(
    (trace) => new Map([...Map.groupBy(trace, ({ id }) => id)].map(([id, list]) => [id, sum(list, 'ms')])),
  );
  return [...Map.groupBy(traces[0] ?? [], ({ id }) => id)].map(([id, list]) => ({
    id,
    kernel: [...new Set(list.map(({ kernel }) => kernel))].join(' + '),
    dispatches: list.length,
    ms: median(times.map((one) => one.get(id) ?? 0)),
    flops: sum(list, 'flops'),
    bytes: sum(list, 'bytes'),
  }));
}

const sum = (list: readonly TracedDispatch[], member: 'ms' | 'flops' | 'bytes'): number =>
  list.reduce((all, one) => all + one[member], 0);

/** Total work of all components. */
export const workOf = (components: readonly Work[]): Work => ({
  flops: components.reduce((all, { flops }) => all + flops, 0),
  bytes: components.reduce((all, { bytes }) => all + bytes, 0),
});

/** Rows for the components of the bound arm in dispatch order, then for those that only the baseline has. */
export function componentTable({ baseline, bound }: TracedArms, peaks: Peaks): BenchResult['components'] {
  const before = new Map(baseline.map((one) => [one.id, one]));
  const stepMs = bound.reduce((all, { ms }) => all + ms, 0);
  const rows = bound.map(({ id, kernel, ms, dispatches, flops, bytes }) => {
    const { gbps, gflops, bandwidthFraction, computeFraction, peakFraction } = ratesOf(
      ms,
      { flops, bytes },
      peaks,
    );
    const own = before.get(id);
    return {
      id,
      kernel,
      gpu_ms: rounded(ms),
      ...(own ? { baseline_ms: rounded(own.ms) } : {}),
      gbps: rounded(gbps),
      gflops: rounded(gflops),
      bandwidth_fraction: rounded(bandwidthFraction),
      compute_fraction: rounded(computeFraction),
      peak_fraction: rounded(peakFraction),
      hint: hintFor({ ms, dispatches, share: stepMs > 0 ? ms / stepMs : 0 }, { flops, bytes }, peaks),
    };
  });
  const running = new Set(bound.map(({ id }) => id));
  const gone = baseline.filter(({ id }) => !running.has(id));
  return [
    ...rows,
    ...gone.map(({ id, kernel, ms }) => ({
      id,
      kernel,
      gpu_ms: 0,
      baseline_ms: rounded(ms),
      gbps: 0,
      gflops: 0,
      bandwidth_fraction: 0,
      compute_fraction: 0,
      peak_fraction: 0,
      hint: 'runs only in the baseline: a bound kernel covers it',
    })),
  ];
}

/** Ids of the components whose bound kernel was faster than the adapter's peaks allow. */
export function tooFast({ baseline, bound }: TracedArms, peaks: Peaks): string[] {
  const before = new Map(baseline.map(({ id, ms }) => [id, ms]));
  return bound
    .filter(({ id, ms, dispatches, flops, bytes }) => {
      // Times below those of empty dispatches are inaccuracies of the clock.
      const atLeast = Math.max(ms, dispatches * peaks.dispatchMs);
      return beatsRoof(atLeast, roofMs({ flops, bytes }, peaks), before.get(id));
    })
    .map(({ id }) => id);
}

/** Rounds to four significant digits; the rest is noise. */
export const rounded = (value: number): number => Number(value.toPrecision(4));
