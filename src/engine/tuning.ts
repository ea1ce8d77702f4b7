import { type Variant, variantKey } from '../../kernels/assemble.ts';
import type { Kernel } from '../../kernels/define.ts';
import type { MatmulFamily, MatmulOption, MatmulParams } from '../../kernels/matmul.ts';

/** Weight matrix dimensions as a kernel sees them. */
export interface Product {
  readonly format: string;
  readonly rows: number;
  /** Columns / 32. */
  readonly blocks: number;
}

/** GPU time in ms for each product and option; the content of a tuning file. */
export type Times = Record<string, Record<string, number>>;

export interface ChosenMatmul {
  readonly kernel: Kernel<Variant, MatmulParams>;
  readonly variant: Variant;
  readonly upTo: number;
  readonly int8?: boolean;
  readonly promptOnly?: boolean;
}

/**
 * An option is preferred only if its time is below this fraction of the previous one's; smaller differences are
 * noise.
 */
const worthwhile = 0.97;

/** Row counts of decoding and of prompts. */
export const comparedCounts = [1, Number.POSITIVE_INFINITY];

export const optionKey = ({ kernel, variant }: MatmulOption): string => variantKey(kernel.source, variant);

export const productKey = ({ format, rows, blocks }: Product, upTo: number): string =>
  `${format} ${rows}x${blocks * 32} up to ${Number.isFinite(upTo) ? upTo : 'any'}`;

/** Chooses the kernel of a product: by measurements on this adapter, else the default. */
export class Tuning {
  readonly times: Times;
  /** True when activations may be rounded to 8 bits. */
  readonly int8: boolean;

  constructor(times: Times = {}, { int8 = false } = {}) {
    this.times = times;
    this.int8 = int8;
  }

  /** The same tuning without 8-bit rounding. */
  exact(): Tuning {
    return new Tuning(this.times);
  }

  /**
   * The fastest family over a model's products measured in each, compared at one token and at many; the first family
   * when nothing was measured.
   */
  family(families: readonly MatmulFamily[], products: readonly Product[]): MatmulFamily {
    const keys = new Set(products.flatMap((one) => comparedCounts.map((upTo) => productKey(one, upTo))));
    const [likely, ...others] = families as [MatmulFamily, ...MatmulFamily[]];
    let best = likely;
    let bestRatio = worthwhile;
    for (const other of others) {
      const ratios = [...keys].flatMap((key) => {
        const byOption = this.times[key] ?? {};
        const [mine, its] = [likely, other].map((family) => leastOf(byOption, family.name));
        return mine !== undefined && its !== undefined ? [its / mine] : [];
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
  choose(family: MatmulFamily, product: Product, unbounded = false): ChosenMatmul[] {
    return family.classes(product.format).map(({ upTo, options: all, promptOnly = false }) => {
      const options = unbounded ? all.filter(({ variant }) => variant['F16'] !== true) : all;
      const times = this.times[productKey(product, upTo)] ?? {};
      let best = options[0] as MatmulOption;
      for (const option of options.slice(1)) {
        if (option.int8 && !this.int8) continue;
        const [now, its] = [
          times[`${family.name} ${optionKey(best)}`],
          times[`${family.name} ${optionKey(option)}`],
        ];
        if (now !== undefined && its !== undefined && its < now * worthwhile) best = option;
      }
      return { ...best, upTo, promptOnly };
    });
  }

  record(family: MatmulFamily, product: Product, upTo: number, option: MatmulOption, ms: number): void {
    (this.times[productKey(product, upTo)] ??= {})[`${family.name} ${optionKey(option)}`] = ms;
  }

  has(family: MatmulFamily, product: Product, upTo: number, option: MatmulOption): boolean {
    return this.times[productKey(product, upTo)]?.[`${family.name} ${optionKey(option)}`] !== undefined;
  }
}

function leastOf(times: Readonly<Record<string, number>>, family: string): number | undefined {
  const mine = Object.entries(times).flatMap(([key, ms]) => (key.startsWith(`${family} `) ? [ms] : []));
  return mine.length > 0 ? Math.min(...mine) : undefined;
}
