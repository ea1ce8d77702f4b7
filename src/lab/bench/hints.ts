import type { AdapterPeaks, OpCost } from './roofline.ts';

export interface Rates {
  readonly gbps: number;
  readonly gflops: number;
  /** Fractions of the copy bandwidth and of the f32 peak. */
  readonly bandwidthFraction: number;
  readonly computeFraction: number;
  /** Fraction of the binding roof: the larger of the two. */
  readonly peakFraction: number;
}

/** @param ms GPU time; 0 gives rates of 0 */
export function computeRates(ms: number, { flops, bytes }: OpCost, peaks: AdapterPeaks): Rates {
  if (ms <= 0) return { gbps: 0, gflops: 0, bandwidthFraction: 0, computeFraction: 0, peakFraction: 0 };
  const gbps = bytes / ms / 1e6;
  const gflops = flops / ms / 1e6;
  const bandwidthFraction = gbps / peaks.gbps;
  const computeFraction = gflops / peaks.gflops;
  const peakFraction = Math.max(bandwidthFraction, computeFraction);
  return { gbps, gflops, bandwidthFraction, computeFraction, peakFraction };
}

/** Fraction of a roof from which it is considered the bound. */
const boundFraction = 0.6;
const latencyFraction = 0.1;
/** Up to this multiple of the time of an empty dispatch, launch overhead dominates. */
const launchBoundFactor = 3;

/**
 * One line that names the bottleneck of a component and what to try.
 * @param dispatches number of dispatches of the component
 * @param share fraction of the step's GPU time
 * @param isSoftware whether the adapter runs on the CPU, where wide loads and f16 are not faster (see the profile's hints)
 */
export function hintFor(
  { ms, dispatches, share }: { ms: number; dispatches: number; share: number },
  cost: OpCost,
  { peaks, isSoftware }: { readonly peaks: AdapterPeaks; readonly isSoftware: boolean },
): string {
  if (ms <= 0) return 'too short for this clock to measure: nothing to gain here';
  const { bandwidthFraction: memory, computeFraction: arithmetic } = computeRates(ms, cost, peaks);
  const shareNote = share < 0.02 ? `, but only ${formatPercent(share)} of the step` : '';
  const isLaunchBound = ms <= launchBoundFactor * dispatches * peaks.dispatchMs;
  if (isLaunchBound && Math.max(memory, arithmetic) < boundFraction) {
    return `launch bound, near the ${formatMs(peaks.dispatchMs)} of an empty dispatch: fuse it with an adjacent op${shareNote}`;
  }
  if (memory >= 1 && memory >= arithmetic) {
    return `served by caches at ${formatPercent(memory)} of copy bandwidth: reduce bytes, or instructions per byte${shareNote}`;
  }
  if (memory >= boundFraction && memory >= arithmetic) {
    return `memory bound at ${formatPercent(memory)} of copy bandwidth: move fewer bytes, read each only once${shareNote}`;
  }
  if (arithmetic >= boundFraction) {
    return `compute bound at ${formatPercent(arithmetic)} of f32 peak: use fewer ${isSoftware ? 'operations' : 'or cheaper operations (f16, dot4I8Packed)'}${shareNote}`;
  }
  const rates = `${formatPercent(memory)} of bandwidth, ${formatPercent(arithmetic)} of f32 peak`;
  if (Math.max(memory, arithmetic) < latencyFraction) {
    if (isSoftware)
      return `far from both roofs (${rates}): use fewer barriers, and fewer reads and sums that several threads repeat${shareNote}`;
    return `latency bound (${rates}): use more threads or rows at once, fewer barriers, wider loads${shareNote}`;
  }
  return memory >= arithmetic
    ? `below its memory roof (${rates}): use ${isSoftware ? 'fewer instructions for each byte' : 'wider loads (vec4) and more of them in flight'}${shareNote}`
    : `below its compute roof (${rates}): use more independent sums and less index arithmetic${shareNote}`;
}

const formatPercent = (fraction: number): string => `${(fraction * 100).toFixed(fraction < 0.0995 ? 1 : 0)}%`;
const formatMs = (ms: number): string => (ms < 0.1 ? `${(ms * 1000).toFixed(1)} us` : `${ms.toFixed(2)} ms`);
