import type { Variant } from '../../../kernels/assemble.ts';
import type { Contract } from '../../../kernels/contracts.ts';
import type { AdapterCaps, Kernel, StepDims } from '../../../kernels/define.ts';
import type { Dims, ExpectedOutput, LiveShapes, ParityCase } from '../types.ts';

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

/** A size of the inputs of an op, for timing: all dims, and for attention and caches `context`, the positions of the sequence. */
export interface CaseSize {
  /** 32 bits. Equal sizes and seeds give equal cases. */
  readonly seed: number;
  readonly dims: Dims;
  /** Weight format, for ops that read weights. */
  readonly format?: string | undefined;
}

/** Buffer for one binding of a built-in kernel. */
export type BuiltinBinding =
  /** The buffer of a binding of the contract. */
  | { readonly tensor: string }
  /** A zero-initialized buffer that the steps of one case share by name. */
  | { readonly scratch: string; readonly bytes: number }
  | { readonly data: Uint32Array<ArrayBuffer> | Float32Array<ArrayBuffer> };

/** One dispatch of a built-in kernel. The runner of the case binds `params` and `step`. */
export interface BuiltinStep {
  readonly kernel: Kernel<Variant, never>;
  readonly variant: Variant;
  readonly params: Readonly<Record<string, number>>;
  /** By binding name of the kernel, without `params` and `step`. */
  readonly bindings: Readonly<Record<string, BuiltinBinding>>;
  readonly dims: StepDims;
}

/** Parity definition of one op. */
export interface LabOp {
  readonly contract: Contract;
  /** Generates cases from a seed. */
  readonly cases: (options: CaseOptions) => ParityCase[];
  /** Generates a case of exactly this size, with ordinary values. @throws Error when a dim is missing */
  readonly sizedCase: (size: CaseSize) => ParityCase;
  /** Expected contents of each `out` and `inout` binding, computed in float64 from the definition of the op. */
  readonly oracle: (parityCase: ParityCase) => Readonly<Record<string, ExpectedOutput>>;
  /**
   * Dispatches of the built-in kernels for the same input, in order: to compare their error and time with a
   * candidate. Undefined when the engine has none for the case.
   */
  readonly builtin: (parityCase: ParityCase, caps: AdapterCaps) => readonly BuiltinStep[] | undefined;
}
