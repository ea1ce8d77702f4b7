import { type Variant, variantKey } from '../../kernels/assemble.ts';
import type { Kernel } from '../../kernels/define.ts';
import type { MatmulFamily, MatmulOption, MatmulParams } from '../../kernels/matmul.ts';

/** One matrix of weights as a kernel sees it. */
export interface Product {
  readonly format: string;
  readonly rows: number;
  /** Columns / 32. */
  readonly blocks: number;
}

/** GPU ms of an option at one product and class; what a tuning file holds. */
export type Times = Record<string, Record<string, number>>;

export interface ChosenMatmul {
  readonly kernel: Kernel<Variant, MatmulParams>;
  readonly variant: Variant;
  readonly upTo: number;
  readonly int8?: boolean;
  readonly promptOnly?: boolean;
}

/** An option must be so much faster than the one before it: less is noise. */
const worthwhile = 0.97;

/** What decoding and prompts run at. */
export const comparedCounts = [1, Number.POSITIVE_INFINITY];

export const optionKey = ({ kernel, variant }: MatmulOption): string => variantKey(kernel.source, variant);

export const productKey = ({ format, rows, blocks }: Product, upTo: number): string =>
  `${format} ${rows}x${blocks * 32} up to ${Number.isFinite(upTo) ? upTo : 'any'}`;

/** Which kernel a product runs as: by what was measured on this adapter, else the likely one. */
export class Tuning {
  readonly times: Times;
  /** Activations may be rounded to 8 bits. */
  readonly int8: boolean;

  constructor(times: Times = {}, { int8 = false } = {}) {
    this.times = times;
    this.int8 = int8;
  }

  /** The same without rounding. */
  exact(): Tuning {
    return new Tuning(this.times);
  }

  /**
   * The faster of the families, on those of a model's products that were measured in each; the first when none was.
   * Two families are compared at one token and at many.
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

  /** @param unbounded f16 may not hold the activations */
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
