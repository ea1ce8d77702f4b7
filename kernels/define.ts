import type { Variant } from './assemble.ts';

export type BindingType = 'read' | 'read_write' | 'uniform';
/** Name in the source, and how it is bound; the position in the list is the binding number. */
export type Binding = readonly [name: string, type: BindingType] | undefined;
export type Grid = readonly [x: number, y: number, z: number];

/** What a kernel may rely on; derived from the adapter once. */
export interface AdapterCaps {
  /** Lanes of every subgroup; undefined without the feature or when the size may vary. */
  readonly subgroupSize: number | undefined;
  readonly f16: boolean;
  /** Subgroups of 32 multiply f16 matrices of 16 x 16 x 16 and sum in f32 (`chromium_experimental_subgroup_matrix`). */
  readonly matrix?: boolean;
  /** A CPU pretends to be a GPU: few wide cores, dear barriers, dear gathers. */
  readonly software: boolean;
}

/** What the grid of a dispatch depends on in one step. */
export interface StepDims {
  tokens: number;
  /** Rows of answers: decoded, or drafts being verified. */
  answers: number;
  samples: number;
  /** Tiles of one token, and tiles of several. */
  singleTiles: number;
  wideTiles: number;
  /** Runs of tokens, one a sequence. */
  spans: number;
  /** Parts of the context. */
  splits: number;
  /** Some sample has a bias, a penalty or a mask. */
  adjust: boolean;
  /** Some sample asks for log probabilities. */
  logprobs: boolean;
}

export interface Kernel<V extends Variant = Variant, P extends Readonly<Record<string, number>> = Params> {
  readonly op: string;
  /** Path below `wgsl/`. */
  readonly source: string;
  bindings(variant: V): readonly Binding[];
  /** Members of the `Params` struct, in order; all are 4 bytes wide. */
  readonly params: readonly (readonly [name: keyof P & string, type: 'u32' | 'f32'])[];
  /** Workgroups for one step; a zero means: nothing to do. */
  grid(variant: V, params: P, dims: StepDims): Grid;
  /** Every variant the engine may ask for on some adapter: the WGSL lint compiles them all. */
  readonly variants: readonly V[];
}

type Params = Readonly<Record<string, number>>;

/** Kernels are data; this only fixes their types. */
export function defineKernel<V extends Variant, P extends Params>(kernel: Kernel<V, P>): Kernel<V, P> {
  return kernel;
}

/** A kernel whose variants' own type does not matter, for lists of different ones. */
export function erased<V extends Variant, P extends Params>(kernel: Kernel<V, P>): Kernel<Variant, P> {
  return kernel;
}

/** The bytes of a `Params` struct, padded to 16. */
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

export const ceilDiv = (value: number, by: number): number => Math.ceil(value / by);

/** Every combination of the given values, for lists of variants. */
export function combinations<T extends Record<string, readonly unknown[]>>(
  fields: T,
): { -readonly [K in keyof T]: T[K][number] }[] {
  let all: Record<string, unknown>[] = [{}];
  for (const [name, values] of Object.entries(fields)) {
    all = all.flatMap((one) => values.map((value) => ({ ...one, [name]: value })));
  }
  return all as { -readonly [K in keyof T]: T[K][number] }[];
}
