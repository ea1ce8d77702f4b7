import { kernelName } from '../verification/excluded-kernels.ts';
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

/** GPU time in ms for each measured step of a subject, and option; the content of a tuning file. */
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

/** A kernel variant among which a choice is made. */
export interface KernelOption {
  readonly kernel: { readonly source: string };
  readonly variant: Variant;
}

export const optionKey = ({ kernel, variant }: KernelOption): string => variantKey(kernel.source, variant);

/** Key of the times of a subject, such as a norm of rows of some length, in one of the steps that it is measured in. */
export const stepKey = (subject: string, step: string): string => `${subject}, ${step}`;

export const productKey = ({ format, rows, blocks }: ProductShape, upTo: number): string =>
  `${format} ${rows}x${blocks * 32} up to ${Number.isFinite(upTo) ? upTo : 'any'}`;

interface TuningLimits {
  readonly int8?: boolean;
  readonly f16?: boolean;
  readonly int16?: boolean;
  readonly excluded?: ReadonlySet<string>;
}

/** Chooses the kernel of a product: by measurements on this adapter, else the default. */
export class Tuning {
  readonly times: KernelTimes;
  /** True when activations may be rounded to 8 bits. */
  readonly int8: boolean;
  /** True when activations and weights of prompts may be rounded to f16. */
  readonly f16: boolean;
  /** True when activations of decoded rows may be rounded to 16 bits per block. */
  readonly int16: boolean;
  /** Names of kernels that gave wrong results on this adapter (`kernelName`). */
  readonly excluded: ReadonlySet<string>;

  constructor(
    times: KernelTimes = {},
    { int8 = false, f16 = true, int16 = true, excluded = new Set() }: TuningLimits = {},
  ) {
    this.times = times;
    this.int8 = int8;
    this.f16 = f16;
    this.int16 = int16;
    this.excluded = excluded;
  }

  get #limits(): Required<TuningLimits> {
    const { int8, f16, int16, excluded } = this;
    return { int8, f16, int16, excluded };
  }

  /** The same tuning without 8-bit rounding. */
  withoutInt8(): Tuning {
    return new Tuning(this.times, { ...this.#limits, int8: false });
  }

  /** The same tuning without these kernels. */
  without(kernels: Iterable<string>): Tuning {
    return new Tuning(this.times, { ...this.#limits, excluded: new Set([...this.excluded, ...kernels]) });
  }

  /**
   * The fastest family over a model's products measured in each, compared at one token and at many; the first family
   * when nothing was measured. A family without a kernel for some product, because all are excluded, is the last resort.
   */
  family(families: readonly MatmulFamily[], products: readonly ProductShape[]): MatmulFamily {
    const usable = families.filter((family) => products.every((one) => this.#hasKernels(family, one)));
    return this.#fastest(usable.length > 0 ? usable : families, products);
  }

  /** True when a kernel for every number of rows is not excluded. */
  #hasKernels(family: MatmulFamily, { format }: ProductShape): boolean {
    return family.classes(format).every(({ options }) => options.some((option) => this.#isUsable(option)));
  }

  /**
   * The fastest option over all of these keys of times, by the geometric mean; the first when nothing was measured.
   * @param options names of options
   */
  fastest(keys: readonly string[], options: readonly string[]): string {
    return fastest(options, keys, (option, key) => this.times[key]?.[option]);
  }

  /** The fastest variant that is not excluded, for all steps together. @param options at least one, the default first */
  variant<O extends KernelOption>(subject: string, steps: readonly string[], options: readonly O[]): O {
    const usable = options.filter((one) => !this.#isExcluded(one));
    const byKey = new Map((usable.length > 0 ? usable : options).map((one) => [optionKey(one), one]));
    const chosen = this.fastest(
      steps.map((step) => stepKey(subject, step)),
      [...byKey.keys()],
    );
    return byKey.get(chosen) as O;
  }

  #isExcluded({ kernel, variant }: KernelOption): boolean {
    return this.excluded.has(kernelName(kernel.source, variant));
  }

  #isUsable({ kernel, variant, roundsTo16Bits = false }: MatmulOption): boolean {
    if ((variant['F16'] === true && !this.f16) || (roundsTo16Bits && !this.int16)) return false;
    return !this.#isExcluded({ kernel, variant });
  }

  #fastest(families: readonly MatmulFamily[], products: readonly ProductShape[]): MatmulFamily {
    const keys = new Set(products.flatMap((one) => comparedRowCounts.map((upTo) => productKey(one, upTo))));
    return fastest(families, [...keys], ({ name }, key) => minTimeOf(this.times[key] ?? {}, name));
  }

  /** @param unbounded activations may exceed f16 */
  choose(family: MatmulFamily, product: ProductShape, unbounded = false): ChosenMatmul[] {
    const chosen = family.classes(product.format).map(({ upTo, options: allOptions }) => {
      const bounded = allOptions.filter(({ variant }) => !(unbounded && variant['F16'] === true));
      const usable = bounded.filter((option) => this.#isUsable(option));
      // Without any, the plan has an excluded kernel, which refuses the model.
      const options = usable.length > 0 ? usable : bounded;
      const [first, ...others] = options as [MatmulOption, ...MatmulOption[]];
      // Kernels for decoded rows round differently, and must not differ between numbers of rows.
      const measured =
        first.kernel.rows === 'decode' ? [] : others.filter(({ int8 }) => this.int8 || int8 !== true);
      const best = fastest(
        [first, ...measured],
        [productKey(product, upTo)],
        (option, key) => this.times[key]?.[`${family.name} ${optionKey(option)}`],
      );
      return { ...best, upTo };
    });
    return chosen.flatMap((one) => [fewRowsClass(one) ?? [], one].flat());
  }

  record(family: MatmulFamily, product: ProductShape, upTo: number, option: MatmulOption, ms: number): void {
    this.recordTime(productKey(product, upTo), `${family.name} ${optionKey(option)}`, ms);
  }

  recordTime(key: string, option: string, ms: number): void {
    (this.times[key] ??= {})[option] = ms;
  }

  hasTime(key: string, option: string): boolean {
    return this.times[key]?.[option] !== undefined;
  }

  has(family: MatmulFamily, product: ProductShape, upTo: number, option: MatmulOption): boolean {
    return this.times[productKey(product, upTo)]?.[`${family.name} ${optionKey(option)}`] !== undefined;
  }
}

/**
 * The option with the least time. One option is compared with another by the geometric mean of their ratios, over the keys with
 * times of both, and is preferred to an earlier one only when it is faster by more than noise.
 */
function fastest<T>(
  options: readonly T[],
  keys: readonly string[],
  timeOf: (option: T, key: string) => number | undefined,
): T {
  let [best] = options as [T, ...T[]];
  for (const option of options.slice(1)) {
    const ratios = keys.flatMap((key) => {
      const [bestMs, optionMs] = [timeOf(best, key), timeOf(option, key)];
      return bestMs !== undefined && optionMs !== undefined ? [optionMs / bestMs] : [];
    });
    const ratio = ratios.reduce((product, one) => product * one, 1) ** (1 / Math.max(1, ratios.length));
    if (ratios.length > 0 && ratio < maxTimeRatio) best = option;
  }
  return best;
}

function minTimeOf(times: Readonly<Record<string, number>>, family: string): number | undefined {
  const familyTimes = Object.entries(times).flatMap(([key, ms]) =>
    key.startsWith(`${family} `) ? [ms] : [],
  );
  return familyTimes.length > 0 ? Math.min(...familyTimes) : undefined;
}
