/** Decides from sampled results whether a kernel is correct. */

/** How a kernel rounds, which decides how far its results may be off in the mean. */
export type Precision = 'f32' | 'f16' | '16-bit blocks' | '8-bit blocks';

/**
 * Largest part of a result that may be missing or in excess in the mean over all results of a kernel. Rounding is to nearest and
 * has no direction, so a mean that is off is a fault, however small.
 */
const maxDrift: Readonly<Record<Precision, number>> = {
  f32: 1e-5,
  f16: 3e-4,
  '16-bit blocks': 5e-5,
  '8-bit blocks': 2e-3,
};

/** Largest error of a result, in expected errors. */
const maxDeviation = 10;
/** Largest root mean square of errors, in expected errors. */
const maxRms = 3;
/** Results below which the root mean square says nothing. */
const minRmsCount = 16;
/** Uncertainty of the mean that is not held against a kernel, in standard deviations. */
const driftDeviations = 6;

/** One compared result. */
export interface Result {
  readonly got: number;
  readonly expected: number;
  /** Expected error of correct rounding, as a standard deviation. */
  readonly error: number;
  /** The part of `expected` that the kernel computed; the rest was there before. Default: all. */
  readonly computed?: number;
}

/** Why a kernel is not correct, and where that was seen first. */
export interface Fault {
  /** Id of the dispatch. */
  readonly at: string;
  readonly reason: string;
}

/** Results of one kernel over all its dispatches. */
export class KernelResults {
  readonly #precision: Precision;
  #count = 0;
  #squares = 0;
  #drift = 0;
  #driftWeight = 0;
  #at = '';
  #worst: { readonly at: string; readonly deviation: number; readonly result: Result } | undefined;

  constructor(precision: Precision) {
    this.#precision = precision;
  }

  get count(): number {
    return this.#count;
  }

  /** @param at id of the dispatch and the output that it belongs to */
  add(at: string, result: Result): void {
    const { got, expected, computed = expected } = result;
    this.#count += 1;
    this.#at = at;
    // What is infinite or NaN must be so on both sides.
    if (!Number.isFinite(expected) || !Number.isFinite(got)) {
      if (!Object.is(got, expected)) this.#keepWorst(at, Number.POSITIVE_INFINITY, result);
      return;
    }
    const error = Math.max(result.error, 1e-30);
    const deviation = (got - expected) / error;
    this.#squares += deviation ** 2;
    this.#drift += (deviation * computed) / error;
    this.#driftWeight += (computed / error) ** 2;
    this.#keepWorst(at, Math.abs(deviation), result);
  }

  #keepWorst(at: string, deviation: number, result: Result): void {
    if (!this.#worst || deviation > this.#worst.deviation) this.#worst = { at, deviation, result };
  }

  /** Root mean square of errors in expected errors, the largest one, and the drift; for tests. */
  summary(): { rms: number; worst: number; drift: number; driftLimit: number; at: string } {
    const rms = Math.sqrt(this.#squares / Math.max(1, this.#count));
    const drift = this.#driftWeight > 0 ? this.#drift / this.#driftWeight : 0;
    const uncertainty = this.#driftWeight > 0 ? driftDeviations / Math.sqrt(this.#driftWeight) : 0;
    return {
      rms,
      worst: this.#worst?.deviation ?? 0,
      drift,
      driftLimit: maxDrift[this.#precision] + uncertainty,
      at: this.#worst?.at ?? this.#at,
    };
  }

  /** Undefined when nothing is wrong so far. */
  fault(): Fault | undefined {
    const { rms, drift, driftLimit } = this.summary();
    const worst = this.#worst;
    if (worst && worst.deviation > maxDeviation) {
      const { got, expected } = worst.result;
      return { at: worst.at, reason: `${formatNumber(got)} instead of ${formatNumber(expected)}` };
    }
    const at = worst?.at ?? this.#at;
    if (Math.abs(drift) > driftLimit)
      return { at, reason: `results are ${(100 * drift).toPrecision(2)} % too large in the mean` };
    if (this.#count >= minRmsCount && rms > maxRms)
      return { at, reason: `errors are ${rms.toPrecision(2)} times as large as rounding explains` };
    return undefined;
  }
}

const formatNumber = (value: number): string => String(Number(value.toPrecision(6)));
