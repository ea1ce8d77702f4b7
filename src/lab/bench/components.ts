/** GPU times of every component in both arms. */
import type { BenchResult } from '../types.ts';
import { hintFor, computeRates } from './hints.ts';
import type { Arm, BenchPort, TracedDispatch } from './port.ts';
import { type Random, shuffled } from '../../util/random.ts';
import { exceedsRoof, type AdapterPeaks, minimumMs, type OpCost } from './roofline.ts';
import { median } from './statistics.ts';

/** GPU time and work of one component in one arm. */
export interface TracedComponent extends OpCost {
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
      await port.pause();
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
export const totalCost = (components: readonly OpCost[]): OpCost => ({
  flops: components.reduce((all, { flops }) => all + flops, 0),
  bytes: components.reduce((all, { bytes }) => all + bytes, 0),
});

/** Rows for the components of the bound arm in dispatch order, then for those that only the baseline has. */
export function componentTable(
  { baseline, bound }: TracedArms,
  peaks: AdapterPeaks,
  isSoftware: boolean,
): BenchResult['components'] {
  const baselineById = new Map(baseline.map((one) => [one.id, one]));
  const stepMs = bound.reduce((all, { ms }) => all + ms, 0);
  const rows = bound.map(({ id, kernel, ms, dispatches, flops, bytes }) => {
    const { gbps, gflops, bandwidthFraction, computeFraction, peakFraction } = computeRates(
      ms,
      { flops, bytes },
      peaks,
    );
    const baselineRow = baselineById.get(id);
    return {
      id,
      kernel,
      gpu_ms: roundSignificant(ms),
      ...(baselineRow ? { baseline_ms: roundSignificant(baselineRow.ms) } : {}),
      gbps: roundSignificant(gbps),
      gflops: roundSignificant(gflops),
      bandwidth_fraction: roundSignificant(bandwidthFraction),
      compute_fraction: roundSignificant(computeFraction),
      peak_fraction: roundSignificant(peakFraction),
      hint: hintFor(
        { ms, dispatches, share: stepMs > 0 ? ms / stepMs : 0 },
        { flops, bytes },
        { peaks, isSoftware },
      ),
    };
  });
  const running = new Set(bound.map(({ id }) => id));
  const baselineOnly = baseline.filter(({ id }) => !running.has(id));
  return [
    ...rows,
    ...baselineOnly.map(({ id, kernel, ms }) => ({
      id,
      kernel,
      gpu_ms: 0,
      baseline_ms: roundSignificant(ms),
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
export function componentsBeyondRoof({ baseline, bound }: TracedArms, peaks: AdapterPeaks): string[] {
  const baselineById = new Map(baseline.map(({ id, ms }) => [id, ms]));
  return bound
    .filter(({ id, ms, dispatches, flops, bytes }) => {
      // Times below those of empty dispatches are inaccuracies of the clock.
      const effectiveMs = Math.max(ms, dispatches * peaks.dispatchMs);
      return exceedsRoof(effectiveMs, minimumMs({ flops, bytes }, peaks), baselineById.get(id));
    })
    .map(({ id }) => id);
}

/** Rounds to four significant digits; the rest is noise. */
export const roundSignificant = (value: number): number => Number(value.toPrecision(4));
