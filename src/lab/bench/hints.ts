import type { Peaks, Work } from './roofline.ts';

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
export function ratesOf(ms: number, { flops, bytes }: Work, peaks: Peaks): Rates {
  if (ms <= 0) return { gbps: 0, gflops: 0, bandwidthFraction: 0, computeFraction: 0, peakFraction: 0 };
  const gbps = bytes / ms / 1e6;
  const gflops = flops / ms / 1e6;
  const bandwidthFraction = gbps / peaks.gbps;
  const computeFraction = gflops / peaks.gflops;
  const peakFraction = Math.max(bandwidthFraction, computeFraction);
  return { gbps, gflops, bandwidthFraction, computeFraction, peakFraction };
}

/** Fraction of a roof from which it is considered the bound. */
const near = 0.6;
const tiny = 0.1;
/** Up to this multiple of the time of an empty dispatch, launch overhead dominates. */
const launches = 3;

/**
 * One line that names the bottleneck of a component and what to try.
 * @param dispatches number of dispatches of the component
 * @param share fraction of the step's GPU time
 */
export function hintFor(
  { ms, dispatches, share }: { ms: number; dispatches: number; share: number },
  work: Work,
  peaks: Peaks,
): string {
  if (ms <= 0) return 'too short for this clock to measure: nothing to gain here';
  const { bandwidthFraction: memory, computeFraction: arithmetic } = ratesOf(ms, work, peaks);
  const little = share < 0.02 ? `, but only ${percent(share)} of the step` : '';
  const isLaunch = ms <= launches * dispatches * peaks.dispatchMs;
  if (isLaunch && Math.max(memory, arithmetic) < near) {
    return `launch bound, near the ${time(peaks.dispatchMs)} of an empty dispatch: fuse it with an adjacent op${little}`;
  }
  if (memory >= 1 && memory >= arithmetic) {
    return `served by caches at ${percent(memory)} of copy bandwidth: reduce bytes, or instructions per byte${little}`;
  }
  if (memory >= near && memory >= arithmetic) {
    return `memory bound at ${percent(memory)} of copy bandwidth: move fewer bytes, read each only once${little}`;
  }
  if (arithmetic >= near) {
    return `compute bound at ${percent(arithmetic)} of f32 peak: use fewer or cheaper operations (f16, dot4I8Packed)${little}`;
  }
  const rates = `${percent(memory)} of bandwidth, ${percent(arithmetic)} of f32 peak`;
  if (Math.max(memory, arithmetic) < tiny) {
    return `latency bound (${rates}): use more threads or rows at once, fewer barriers, wider loads${little}`;
  }
  return memory >= arithmetic
    ? `below its memory roof (${rates}): use wider loads (vec4) and more of them in flight${little}`
    : `below its compute roof (${rates}): use more independent sums and less index arithmetic${little}`;
}

const percent = (part: number): string => `${(part * 100).toFixed(part < 0.0995 ? 1 : 0)}%`;
const time = (ms: number): string => (ms < 0.1 ? `${(ms * 1000).toFixed(1)} us` : `${ms.toFixed(2)} ms`);
