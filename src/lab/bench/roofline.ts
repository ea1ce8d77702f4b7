/** What an adapter can do at most, measured on it. */
export interface Peaks {
  /** 10^9 bytes a second: read plus written, between buffers too large for caches. */
  readonly gbps: number;
  /** The same of reads that caches can serve; at least `gbps`. */
  readonly cachedGbps: number;
  /** 10^9 operations a second: f32, a fused multiply-add is two. */
  readonly gflops: number;
  /** GPU time of a dispatch that does nothing. */
  readonly dispatchMs: number;
}

export interface Work {
  readonly flops: number;
  readonly bytes: number;
}

/** Packed 8-bit dot products do four times the operations of f32, and f16 twice. */
const cheaperArithmetic = 4;
/** Formulas count each byte once and peaks are of a moment: what is less beyond the roof is no trick. */
const slack = 1.25;
/** Weights and cache of a step that are smaller may stay in caches from one step to the next. */
const cachedBytes = 128 * 2 ** 20;

/** The least time that work can take here, whatever the arithmetic. */
export function roofMs({ flops, bytes }: Work, peaks: Peaks): number {
  const gbps = bytes <= cachedBytes ? peaks.cachedGbps : peaks.gbps;
  return Math.max(bytes / gbps, flops / (cheaperArithmetic * peaks.gflops)) / 1e6;
}

/**
 * True when the bound arm did its work faster than the roof allows. Where the built-ins are beyond the roof too, as
 * matrix units are, their own time stands for it.
 */
export function beatsRoof(boundMs: number, roof: number, baselineMs = Number.POSITIVE_INFINITY): boolean {
  return boundMs * slack < Math.min(roof, baselineMs);
}
