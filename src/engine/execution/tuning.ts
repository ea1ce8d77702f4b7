import { type Variant, variantKey } from '../../../kernels/assemble.ts';
import type { Kernel } from '../../../kernels/define.ts';
import {
  fewRowsClass,
  type MatmulFamily,
  type MatmulOption,
  type MatmulParams,
} from '../../../kernels/matmul.ts';

/** Weight matrix dimensions as a kernel sees them. */
export interface ProductShape {
  readonly format: string;
  readonly rows: number;
  /** Columns / 32. */
  readonly blocks: number;
}

/** GPU time in ms for each product and option; the content of a tuning file. */
export type KernelTimes = Record<string, Record<string, number>>;

export interface ChosenMatmul {
  readonly kernel: Kernel<Variant, MatmulParams>;
  readonly variant: Variant;
  readonly upTo: number;
  readonly int8?: boolean;
}

/**
 * An option is preferred only if its time is below this fraction of the previous one's; smaller differences are
 * noise.
 */
const maxTimeRatio = 0.97;

/** Row counts of decoding and of prompts. */
export const comparedRowCounts = [1, Number.POSITIVE_INFINITY];

export const optionKey = ({ kernel, variant }: MatmulOption): string => variantKey(kernel.source, variant);

export const productKey = ({ format, rows, blocks }: ProductShape, upTo: number): string =>
  `${format} ${rows}x${blocks * 32} up to ${Number.isFinite(upTo) ? upTo : 'any'}`;

/** Chooses the kernel of a product: by measurements on this adapter, else the default. */
export class Tuning {
  readonly times: KernelTimes;
  /** True when activations may be rounded to 8 bits. */
  readonly int8: boolean;
  /** True when activations and weights may be rounded: to f16, or to 16 bits per block. */
  readonly f16: boolean;

  constructor(times: KernelTimes = {}, { int8 = false, f16 = true } = {}) {
    this.times = times;
    this.int8 = int8;
    this.f16 = f16;
  }

  /** The same tuning without 8-bit rounding. */
  withoutInt8(): Tuning {
    return new Tuning(this.times, { f16: this.f16 });
  }

  /**
   * The fastest family over a model's products measured in each, compared at one token and at many; the first family
   * when nothing was measured.
   */
  family(families: readonly MatmulFamily[], products: readonly ProductShape[]): MatmulFamily {
    const keys = new Set(products.flatMap((one) => comparedRowCounts.map((upTo) => productKey(one, upTo))));
    const [defaultFamily, ...others] = families as [MatmulFamily, ...MatmulFamily[]];
    let best = defaultFamily;
    let bestRatio = maxTimeRatio;
    for (const other of others) {
      const ratios = [...keys].flatMap((key) => {
        const byOption = this.times[key] ?? {};
        const [defaultMs, otherMs] = [defaultFamily, other].map((family) => fastestOf(byOption, family.name));
        return defaultMs !== undefined && otherMs !== undefined ? [otherMs / defaultMs] : [];
      });
      const ratio = ratios.reduce((product, one) => product * one, 1) ** (1 / Math.max(1, ratios.length));
      if (ratios.length > 0 && ratio < bestRatio) {
        best = other;
        bestRatio = ratio;
      }
    }
    return best;
  }

  /** @param unbounded activations may exceed f16 */
  choose(family: MatmulFamily, product: ProductShape, unbounded = false): ChosenMatmul[] {
    const chosen = family.classes(product.format).map(({ upTo, options: allOptions }) => {
      const isF32 = unbounded || !this.f16;
      const options = allOptions.filter(
        ({ variant, roundsTo16Bits = false }) =>
          !(isF32 && variant['F16'] === true) && !(roundsTo16Bits && !this.f16),
      );
      const times = this.times[productKey(product, upTo)] ?? {};
      let best = options[0] as MatmulOption;
      // Kernels for decoded rows round differently, and must not differ between numbers of rows.
      for (const option of best.kernel.rows === 'decode' ? [] : options.slice(1)) {
        if (option.int8 && !this.int8) continue;
        const [bestMs, optionMs] = [
          times[`${family.name} ${optionKey(best)}`],
          times[`${family.name} ${optionKey(option)}`],
        ];
        if (bestMs !== undefined && optionMs !== undefined && optionMs < bestMs * maxTimeRatio) best = option;
      }
      return { ...best, upTo };
    });
    return chosen.flatMap((one) => [fewRowsClass(one) ?? [], one].flat());
  }

  record(family: MatmulFamily, product: ProductShape, upTo: number, option: MatmulOption, ms: number): void {
    (this.times[productKey(product, upTo)] ??= {})[`${family.name} ${optionKey(option)}`] = ms;
  }

  has(family: MatmulFamily, product: ProductShape, upTo: number, option: MatmulOption): boolean {
    return this.times[productKey(product, upTo)]?.[`${family.name} ${optionKey(option)}`] !== undefined;
  }
}

function fastestOf(times: Readonly<Record<string, number>>, family: string): number | undefined {
  const familyTimes = Object.entries(times).flatMap(([key, ms]) =>
    key.startsWith(`${family} `) ? [ms] : [],
  );
  return familyTimes.length > 0 ? Math.min(...familyTimes) : undefined;
}
