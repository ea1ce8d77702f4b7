/** Measured peak rates of an adapter. */
export interface AdapterPeaks {
  /** Copy bandwidth in 10^9 bytes per second, read plus written, with buffers too large for caches. */
  readonly gbps: number;
  /** Bandwidth of reads that caches can serve; at least `gbps`. */
  readonly cachedGbps: number;
  /** f32 arithmetic in 10^9 operations per second; a fused multiply-add counts as two. */
  readonly gflops: number;
  /** GPU time of an empty dispatch. */
  readonly dispatchMs: number;
}

export interface OpCost {
  readonly flops: number;
  readonly bytes: number;
}

/** Packed 8-bit dot products have up to four times the rate of f32, f16 up to twice. */
const maxArithmeticSpeedup = 4;
/** Tolerance: formulas count each byte once, and peaks vary over time. */
const roofTolerance = 1.25;
/** Data of a step up to this size may stay in caches between steps. */
const maxCachedBytes = 128 * 2 ** 20;

/** Minimum time for some work on this adapter, with the fastest arithmetic. */
export function minimumMs({ flops, bytes }: OpCost, peaks: AdapterPeaks): number {
  const gbps = bytes <= maxCachedBytes ? peaks.cachedGbps : peaks.gbps;
  return Math.max(bytes / gbps, flops / (maxArithmeticSpeedup * peaks.gflops)) / 1e6;
}

/**
 * Whether the bound arm was faster than the roof allows. If the built-in kernels are faster than the roof too, for
 * example with matrix units, their time is the limit.
 */
export function exceedsRoof(boundMs: number, roof: number, baselineMs = Number.POSITIVE_INFINITY): boolean {
  return boundMs * roofTolerance < Math.min(roof, baselineMs);
}
