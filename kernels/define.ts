import { type Variant, variantKey } from './assemble.ts';

export type BindingType = 'read' | 'read_write' | 'uniform';
/** Name in the source and binding type. The index in the list is the binding number. */
export type KernelBinding = readonly [name: string, type: BindingType] | undefined;
export type Grid = readonly [x: number, y: number, z: number];

/** Subgroup sizes that kernels have variants for. */
export const subgroupSizes = [4, 8, 16, 32, 64] as const;

/** Capabilities of the adapter that kernels can use. */
export interface AdapterCaps {
  /** One of `subgroupSizes`; undefined without the feature, if the size can vary, or for other sizes. */
  readonly subgroupSize: number | undefined;
  readonly f16: boolean;
  /** Subgroups of 32 can multiply 16 x 16 x 16 f16 matrices with f32 sums (`chromium_experimental_subgroup_matrix`). */
  readonly matrix?: boolean;
  /** Workgroups have less than 32 KiB of memory; WebGPU guarantees 16 KiB. */
  readonly hasSmallWorkgroupMemory?: boolean;
  /** Software adapter on the CPU: few SIMD cores, slow barriers, slow gathers. */
  readonly software: boolean;
}

/**
 * Rows of a step that run on kernels of their own: those of decoding sequences and of drafts, which come first, or those
 * of prompts.
 */
export type RowRange = 'decode' | 'prompt';

/** Dims of one step, from which dispatch sizes are computed. */
export interface StepDims {
  tokens: number;
  /** Rows that are decoded, or drafts that are verified. They come before the rows of prompts. */
  decodeRows: number;
  samples: number;
  /**
   * Attention tiles of one token. `splitTiles`: those whose context is split. `wideTiles`: tiles of one or more tokens
   * of one sequence.
   */
  singleTiles: number;
  splitTiles: number;
  wideTiles: number;
  /** Whether tiles of one token belong to consecutive tokens of a sequence, which read each other's keys. */
  hasConsecutiveTiles: boolean;
  /** Runs of consecutive tokens, one for each sequence. */
  sequenceRuns: number;
  /** Parts into which attention splits the context. */
  splits: number;
  /** Whether a sample has a bias, a penalty or a mask. */
  needsLogitAdjustment: boolean;
  /** Whether a sample requests log probabilities. */
  needsLogprobs: boolean;
}

/** Dims of a step without rows. */
export const emptyStepDims: Readonly<StepDims> = {
  tokens: 0,
  decodeRows: 0,
  samples: 0,
  singleTiles: 0,
  splitTiles: 0,
  wideTiles: 0,
  hasConsecutiveTiles: false,
  sequenceRuns: 0,
  splits: 1,
  needsLogitAdjustment: false,
  needsLogprobs: false,
};

/** Number of rows of a step in a range; of all rows when it is undefined. */
export function rowsIn(range: RowRange | undefined, dims: Pick<StepDims, 'tokens' | 'decodeRows'>): number {
  if (range === undefined) return dims.tokens;
  return range === 'decode' ? dims.decodeRows : dims.tokens - dims.decodeRows;
}

export interface Kernel<V extends Variant = Variant, P extends Readonly<Record<string, number>> = Params> {
  readonly op: string;
  /** Path below `wgsl/`. */
  readonly source: string;
  bindings(variant: V): readonly KernelBinding[];
  /** Members of the `Params` struct, in order. Each has 4 bytes. */
  readonly params: readonly (readonly [name: keyof P & string, type: 'u32' | 'f32'])[];
  /** The rows of a step that it computes; all of them when absent. */
  readonly rows?: RowRange;
  /** Workgroup counts for one step. If one is 0, the dispatch is skipped. */
  grid(variant: V, params: P, dims: StepDims): Grid;
  /** Whether a variant needs more than 16 KiB of workgroup memory; 32 KiB are enough for all. */
  needsLargeWorkgroupMemory?(variant: V): boolean;
  /**
   * The variants that tests run and the WGSL lint compiles: all that the engine requests for a supported model on some
   * adapter, and no others. Derived from the functions that choose; `test/unit/planned-variants.test.ts` compares both.
   */
  readonly variants: readonly V[];
  /**
   * Keys of the code paths that a variant takes, for kernels with a constant that any model may have its own value of, such as
   * the size of a head. A variant that is not listed takes only paths of variants that are. Default: every variant is listed.
   */
  paths?(variant: V): readonly string[];
}

type Params = Readonly<Record<string, number>>;

/** Returns its argument; infers the types of a kernel definition. */
export function defineKernel<V extends Variant, P extends Params>(kernel: Kernel<V, P>): Kernel<V, P> {
  return kernel;
}

/** Erases the variant type of a kernel, for lists of different kernels. */
export function eraseVariant<V extends Variant, P extends Params>(kernel: Kernel<V, P>): Kernel<Variant, P> {
  return kernel;
}

/** Packs the values of a `Params` struct, padded to 16 bytes. */
export function packParams<V extends Variant, P extends Params>(
  kernel: Kernel<V, P>,
  values: P,
): ArrayBuffer {
  const bytes = new ArrayBuffer(Math.ceil(Math.max(kernel.params.length, 1) / 4) * 16);
  const view = new DataView(bytes);
  kernel.params.forEach(([name, type], index) => {
    const value = values[name];
    if (value === undefined) throw new Error(`${kernel.op}: parameter ${name} is missing`);
    if (type === 'f32') view.setFloat32(index * 4, value, true);
    else view.setUint32(index * 4, value, true);
  });
  return bytes;
}

/** The distinct ones of some variants. */
export const distinctVariants = <V extends Variant>(variants: readonly V[]): V[] => [
  ...new Map(variants.map((variant) => [variantKey('', variant), variant])).values(),
];

/** A function that calls `make` once, when its result is needed: lists of variants are long, and only tests read them. */
export function lazily<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined;
  return () => (made ??= { value: make() }).value;
}

export const ceilDiv = (value: number, divisor: number): number => Math.ceil(value / divisor);

/** Cartesian product of the given values, for lists of variants. */
export function cartesianProduct<T extends Record<string, readonly unknown[]>>(
  fields: T,
): { -readonly [K in keyof T]: T[K][number] }[] {
  let all: Record<string, unknown>[] = [{}];
  for (const [name, values] of Object.entries(fields)) {
    all = all.flatMap((one) => values.map((value) => ({ ...one, [name]: value })));
  }
  return all as { -readonly [K in keyof T]: T[K][number] }[];
}

/** All capabilities that adapters may have, as far as kernels depend on them. */
export const adapterCaps = lazily((): readonly AdapterCaps[] =>
  cartesianProduct({
    subgroupSize: [undefined, ...subgroupSizes],
    f16: [false, true],
    matrix: [false, true],
    hasSmallWorkgroupMemory: [false, true],
    software: [false, true],
  }).filter(({ subgroupSize, f16, matrix }) => !matrix || (f16 && subgroupSize === 32)),
);

/** The variants that are chosen on any adapter. */
export const variantsOnAllAdapters = <V extends Variant>(choose: (caps: AdapterCaps) => readonly V[]): V[] =>
  distinctVariants(adapterCaps().flatMap(choose));
