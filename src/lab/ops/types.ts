import type { Variant } from '../../../kernels/assemble.ts';
import type { Contract } from '../../../kernels/contracts.ts';
import type { AdapterCaps, Kernel, StepDims } from '../../../kernels/define.ts';
import type { ExpectedOutput, LiveShapes, ParityCase } from '../types.ts';

/** A shape that occurs in the resident model. */
export type LiveShape = LiveShapes['byOp'][string][number];

export interface CaseOptions {
  /** 32 bits. Equal options give equal cases. */
  readonly seed: number;
  /** Weight formats, for ops that read weights; ignored by the others. */
  readonly formats: readonly string[];
  readonly live?: readonly LiveShape[] | undefined;
  /** More and larger cases. */
  readonly strict?: boolean | undefined;
}

/** What is bound to one binding of a built-in kernel. */
export type BuiltinBinding =
  /** A binding of the contract: its contents, and its buffer when the kernel writes to it. */
  | { readonly tensor: string }
  /** A buffer that the steps of one case share by name; zero at first. */
  | { readonly scratch: string; readonly bytes: number }
  | { readonly data: Uint32Array<ArrayBuffer> | Float32Array<ArrayBuffer> };

/** One dispatch of a built-in kernel. `params` and `step` are bound by who runs it. */
export interface BuiltinStep {
  readonly kernel: Kernel<Variant, never>;
  readonly variant: Variant;
  readonly params: Readonly<Record<string, number>>;
  /** By name of the kernel's binding, without `params` and `step`. */
  readonly bindings: Readonly<Record<string, BuiltinBinding>>;
  readonly dims: StepDims;
}

/** How one op of the contracts is checked. */
export interface LabOp {
  readonly contract: Contract;
  /** Inputs drawn from the seed. */
  readonly cases: (options: CaseOptions) => ParityCase[];
  /** What each `out` and `inout` binding should hold afterwards, in float64, from the op's definition. */
  readonly oracle: (one: ParityCase) => Readonly<Record<string, ExpectedOutput>>;
  /**
   * The engine's own kernels on the same input, in order: for the error beside a candidate's, and for timing.
   * Undefined where the engine has none for the case.
   */
  readonly builtin: (one: ParityCase, caps: AdapterCaps) => readonly BuiltinStep[] | undefined;
}
