/** Types that the modules of the lab share, and the shapes of its wire. */

import { isPortableName } from '../words/portable-name.ts';
import type {
  BenchProgress,
  BenchRecord,
  BenchResult,
  BenchSummary,
  BindOutcome,
  ConfigEnvelope,
  ImportedConfig,
  KernelRegistrationReport,
  KernelVersionDetail,
  KernelVersions,
  LabGraph,
  LabKernelDetail,
  LabParts,
  LabProfile,
  LabStub,
  OpDescriptor,
  ParityRunResult,
  RunningBench,
  ValidationReport,
} from './answer-shapes.ts';
import type {
  BenchRequest,
  BindRequest,
  ImportConfigRequest,
  KernelRegistration,
  ParityMode,
  ProfileRequest,
  ValidateRequest,
} from './request-shapes.ts';

export { formatNames } from '../../kernels/formats.ts';
export * from './answer-shapes.ts';
export type * from './kernel-history.ts';
export * from './request-shapes.ts';

/** Whether a config may have this name: a plain file name that cannot escape its directory. */
export const isConfigName = (name: string): boolean =>
  /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(name) && !name.includes('..') && isPortableName(name);

/** Values of a contract's dims. */
export type Dims = Readonly<Record<string, number>>;

/** Contents of one binding in its GPU memory layout. f16 and weights are packed 32-bit words. */
export type TensorData = Float32Array<ArrayBuffer> | Uint32Array<ArrayBuffer>;

/** One input for a kernel: tensors, dims and params. */
export interface ParityCase {
  /** Kind (`random`, `ragged`, `extreme`, `one_row`, `captured` or `live`), then the shape. */
  readonly name: string;
  readonly dims: Dims;
  /** Weight format, for ops that read weights. */
  readonly format?: string;
  /** Contents of every storage binding except those of role `out`. For `inout`, the contents before the run. */
  readonly tensors: Readonly<Record<string, TensorData>>;
  /** Values of the members of `params`. */
  readonly params: Readonly<Record<string, number>>;
  /** Rows write to the same element, as the contract allows: between workgroups, that is a race. */
  readonly hasSharedOutputs?: true;
  /** Largest NMSE of this case, where that of the op allows roundings which are exact here. */
  readonly maxNmse?: number;
}

/** Expected contents of one output. */
export interface ExpectedOutput {
  /** One f32, f16 or u32 value for each element of the binding. */
  readonly values: Float64Array;
  /** Non-zero for elements that must keep their contents; these are compared bit by bit. */
  readonly preserved?: Uint8Array;
  /** Non-zero for elements whose value the contract does not specify. */
  readonly unspecified?: Uint8Array;
}

/** What the gate needs from the resident model: the shapes that occur in it, and captured activations. */
export interface LiveShapes {
  /** By op: the distinct combinations of dims, params and weight format of its components. */
  readonly byOp: Readonly<
    Record<string, readonly { dims: Dims; params: Readonly<Record<string, number>>; format?: string }[]>
  >;
  /** By op: cases whose inputs were captured from the model. */
  readonly captured: Readonly<Record<string, readonly ParityCase[]>>;
}

/** Operations of the lab plane. They throw `LabError`. */
export interface Lab {
  graph(): Promise<LabGraph>;
  parts(): Promise<LabParts>;
  ops(): readonly OpDescriptor[];
  /**
   * Throws `unknown_op`, `invalid_target` for a target or format that the op or the adapter does not support, `unknown_component`,
   * and `incompatible_component` for a component of another op.
   */
  stub(op: string, options?: StubOptions): Promise<LabStub>;
  /** The last registration of a name with its report. Throws `unknown_kernel`. */
  kernel(name: string): LabKernelDetail;
  /** Throws `unknown_kernel`, and `kernel_bound` while it is bound. */
  deleteKernel(name: string): Promise<void>;
  /** The registrations of a name, or of the name that was registered with a digest, newest first. Throws `unknown_kernel`. */
  versions(nameOrDigest: string): Promise<KernelVersions>;
  /** A registration with its report. Throws `unknown_kernel`. */
  version(name: string, at: string): Promise<KernelVersionDetail>;
  register(registration: KernelRegistration, signal: AbortSignal): Promise<KernelRegistrationReport>;
  /**
   * Emulates a registered kernel on a live shape and counts what it asks of memory. Throws `unknown_kernel`, `not_profiled`.
   */
  profile(request: ProfileRequest, signal: AbortSignal): Promise<LabProfile>;
  /**
   * The first binding of a registration measures its drift, for which it waits like `bench`; `signal` cancels that. Throws
   * `unknown_kernel`, `not_bindable`, `unknown_component`, `incompatible_component`.
   */
  bind(request: BindRequest, signal: AbortSignal): Promise<BindOutcome>;
  unbind(): Promise<void>;
  /** Unbinds the bound components that a glob matches, and returns them. Throws `unknown_component`. */
  unbindSome(glob: string): Promise<readonly string[]>;
  readonly parityMode: ParityMode;
  setParityMode(mode: ParityMode): ParityMode;
  /** Runs exclusively, like `bench`: waits until no completion is running or queued. `signal` cancels it. */
  runParity(signal: AbortSignal): Promise<ParityRunResult>;
  bench(
    request: BenchRequest,
    signal: AbortSignal,
    onProgress?: (progress: BenchProgress) => void,
  ): Promise<BenchResult>;
  /** The benches that run or wait. */
  benches(): readonly RunningBench[];
  /** Finished benches, newest first. */
  finishedBenches(): Promise<readonly BenchSummary[]>;
  /** A finished bench with its raw times. Throws `unknown_bench`. */
  finishedBench(id: string): Promise<BenchRecord>;
  /** Ends a bench, which then throws `bench_cancelled`. Throws `unknown_bench`. */
  cancelBench(id: string): void;
  /** Checks signature, safety and parity evidence. Nothing is run. */
  validate(request: ValidateRequest): Promise<ValidationReport>;
  configNames(): Promise<readonly string[]>;
  /** Throws `invalid_name`, `nothing_bound`. */
  saveConfig(name: string): Promise<ConfigEnvelope>;
  /** Returns canonical JSON. Throws `invalid_name`, `unknown_config`. */
  config(name: string): Promise<string>;
  /** Throws `invalid_name`, `invalid_config`, `config_exists`. */
  importConfig(request: ImportConfigRequest): Promise<ImportedConfig>;
  /** Throws `invalid_name`, `unknown_config`. */
  deleteConfig(name: string): Promise<void>;
}

export interface StubOptions {
  readonly target?: string | undefined;
  /** Weight format. Default: that of the component, else that of most weights of the model. */
  readonly format?: string | undefined;
  /** Id of a component or span whose op and format the stub must have. */
  readonly component?: string | undefined;
}

export type LabErrorCode =
  | 'unknown_op'
  | 'invalid_target'
  | 'unknown_kernel'
  | 'kernel_bound'
  | 'not_bindable'
  | 'unknown_component'
  | 'incompatible_component'
  | 'invalid_name'
  | 'unknown_config'
  | 'nothing_bound'
  | 'invalid_config'
  | 'config_exists'
  | 'not_profiled'
  | 'unknown_bench'
  | 'bench_cancelled'
  | 'lab_busy'
  | 'lab_failed';

export class LabError extends Error {
  readonly code: LabErrorCode;
  constructor(code: LabErrorCode, message: string) {
    super(message);
    this.name = 'LabError';
    this.code = code;
  }
}
