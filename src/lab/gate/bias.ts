/**
 * Systematic errors: those that are the same for all elements. Errors of rounding cancel over many elements and layers; these add up,
 * so a much smaller one matters.
 */
import type { Exactness } from '../../../kernels/contracts.ts';
import type { ExpectedOutput, Finding } from '../types.ts';
import { formatError } from './output-errors.ts';

/** Relative to the RMS of the expected values. */
interface Bias {
  /** By how much the results are too large, as a factor: the slope of results over expected values, minus 1. */
  readonly gain: number;
  /** Mean signed error. */
  readonly offset: number;
}

/**
 * Largest mean bias over the cases. Rounding activations to 8 bits gives up to 1e-3 in a case and less in the mean, f16 arithmetic
 * 1e-4, f32 with a coarse exponential 1e-5.
 */
const limits: Readonly<Record<Exactness, number | undefined>> = {
  f32: 5e-5,
  f16: 1e-3,
  quantised: 4e-3,
  exact: undefined,
};
/** Fewer elements or cases say too little. */
const minElements = 16;
const minCases = 4;
/** Standard errors between the mean of the cases and 0: one in 15,000 by chance. */
const minDeviations = 4;

/** Bias of one output; undefined when it has too few elements that are compared and finite, or all are 0. */
export function biasOf(
  { values: expected, preserved, unspecified }: ExpectedOutput,
  got: ArrayLike<number>,
): Bias | undefined {
  let [count, power, product, error] = [0, 0, 0, 0];
  for (let i = 0; i < expected.length; i++) {
    const [e, g] = [expected[i] as number, got[i] as number];
    if (preserved?.[i] || unspecified?.[i] || !Number.isFinite(e) || !Number.isFinite(g)) continue;
    count += 1;
    power += e * e;
    product += (g - e) * e;
    error += g - e;
  }
  if (count < minElements || power === 0) return undefined;
  return { gain: product / power, offset: error / count / Math.sqrt(power / count) };
}

/** Collects the biases of all cases. */
export class BiasMeter {
  readonly #byOutput = new Map<string, { exactness: Exactness; biases: Bias[] }>();

  add(output: string, exactness: Exactness, bias: Bias | undefined): void {
    if (!bias) return;
    const key = `${output} ${exactness}`;
    const known = this.#byOutput.get(key) ?? { exactness, biases: [] };
    known.biases.push(bias);
    this.#byOutput.set(key, known);
  }

  /** @param scale of the tolerance */
  findings(scale: number): Finding[] {
    return [...this.#byOutput].flatMap(([key, { exactness, biases }]) => {
      const limit = limits[exactness];
      if (limit === undefined || biases.length < minCases) return [];
      const [output = ''] = key.split(' ');
      const parts = [
        ['too large by the factor', biases.map(({ gain }) => gain)],
        ['off by the same amount, relative to their RMS:', biases.map(({ offset }) => offset)],
      ] as const;
      return parts.flatMap(([what, list]) => {
        const { mean, standardError } = statisticsOf(list);
        if (Math.abs(mean) <= limit * scale || Math.abs(mean) < minDeviations * standardError) return [];
        const spread = formatError(2 * standardError);
        return {
          code: 'systematic_error',
          severity: 'error' as const,
          message:
            `the results in ${output} are ${what} ${formatError(mean)} (95% interval ± ${spread}, over ${list.length} cases); at most ` +
            `${formatError(limit * scale)} is accepted, because such errors add up over layers and tokens`,
        };
      });
    });
  }
}

function statisticsOf(values: readonly number[]): { mean: number; standardError: number } {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  return { mean, standardError: Math.sqrt(squares / (values.length - 1) / values.length) };
}
