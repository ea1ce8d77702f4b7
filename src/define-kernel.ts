import type { FormatName } from '../kernels/formats.ts';

/** Workgroup counts of a dispatch: expressions over the op's dims and the overrides; absent dimensions are 1. */
export type KernelDispatch = string | { readonly x: string; readonly y?: string; readonly z?: string };

/** A lab kernel defined as a module. `docs/write-a-kernel.md` explains the members. */
export interface KernelDefinition {
  /** `^[a-z][a-z0-9_.-]{0,63}$` */
  readonly name: string;
  /** An op listed by `lab.js ops`. */
  readonly op: string;
  /**
   * WGSL: the text itself, the URL of a file that contains it (`new URL('./norm.wgsl', import.meta.url)`), or a
   * function that generates it from the values of `overrides`.
   */
  readonly source: string | URL | ((overrides: Readonly<Record<string, number>>) => string);
  /** Defaults to `main`. */
  readonly entry_point?: string;
  /** A string is the `x` expression. */
  readonly dispatch: KernelDispatch;
  /** Values of the module's overrides. */
  readonly overrides?: Readonly<Record<string, number>>;
  /** Overrides with the values to try when tuning. */
  readonly tunables?: Readonly<Record<string, readonly number[]>>;
  readonly requires?: readonly ('shader-f16' | 'subgroups')[];
  /** Weight formats that the kernel supports; defaults to the model's own. */
  readonly dtypes?: readonly FormatName[];
  /** Globs over ids of components and spans that `lab.js watch` binds the kernel to. */
  readonly bind?: string | readonly string[];
}

/**
 * `export default defineKernel({...})` gives a kernel its types. `lab.js check` validates the values, so that plain
 * JavaScript is checked as well.
 */
export function defineKernel<const Definition extends KernelDefinition>(definition: Definition): Definition {
  return definition;
}
