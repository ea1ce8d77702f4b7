import type { FormatName } from '../kernels/formats.ts';

/** Workgroups of a dispatch: expressions over the op's dims and the overrides; what is absent is 1. */
export type KernelDispatch = string | { readonly x: string; readonly y?: string; readonly z?: string };

/** A kernel of the lab, written as a module. `docs/write-a-kernel.md` explains the members. */
export interface KernelDefinition {
  /** `^[a-z][a-z0-9_.-]{0,63}$` */
  readonly name: string;
  /** One that `lab.js ops` lists. */
  readonly op: string;
  /**
   * WGSL: the text itself, the file that holds it (`new URL('./norm.wgsl', import.meta.url)`), or what writes it from
   * the values of `overrides`.
   */
  readonly source: string | URL | ((overrides: Readonly<Record<string, number>>) => string);
  /** Default `main`. */
  readonly entry_point?: string;
  /** A text is its `x`. */
  readonly dispatch: KernelDispatch;
  /** Values of the module's overrides. */
  readonly overrides?: Readonly<Record<string, number>>;
  /** Overrides with the values to try. */
  readonly tunables?: Readonly<Record<string, readonly number[]>>;
  readonly requires?: readonly ('shader-f16' | 'subgroups')[];
  /** Weight formats that the kernel reads; the model's own when absent. */
  readonly dtypes?: readonly FormatName[];
  /** Globs over ids of components and spans that `lab.js watch` binds it to. */
  readonly bind?: string | readonly string[];
}

/**
 * `export default defineKernel({...})`: gives a kernel its types. `lab.js check` looks at the values, so that plain
 * JavaScript is checked as well.
 */
export function defineKernel<const Definition extends KernelDefinition>(definition: Definition): Definition {
  return definition;
}
