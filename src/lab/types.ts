/** Types that the modules of the lab share. Members in snake_case are sent over the wire as they are. */

import { isPortableName } from '../words/portable-name.ts';

export { formatNames } from '../../kernels/formats.ts';

/** Pattern of a valid kernel name. */
export const kernelNamePattern = /^[a-z][a-z0-9_.-]{0,63}$/;

/** Whether a config may have this name: a plain file name that cannot escape its directory. */
export const isConfigName = (name: string): boolean =>
  /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(name) && !name.includes('..') && isPortableName(name);

/** Request body of POST /lab/v1/kernels: a kernel to check and register. */
export interface KernelRegistration {
  /** Matches `kernelNamePattern`. */
  readonly name: string;
  /** A key of `contracts`. */
  readonly op: string;
  /** WGSL source. */
  readonly source: string;
  /** Default `main`. */
  readonly entry_point?: string | undefined;
  /** Workgroup counts as expressions over the op's dims and the overrides. An absent axis is 1. */
  readonly dispatch: { readonly x: string; readonly y?: string | undefined; readonly z?: string | undefined };
  /** Values of the module's `override` declarations, by name. */
  readonly overrides?: Readonly<Record<string, number>> | undefined;
  /** Overrides to tune, each with the values to try. */
  readonly tunables?: Readonly<Record<string, readonly number[]>> | undefined;
  readonly requires?: readonly ('shader-f16' | 'subgroups')[] | undefined;
  /** Weight formats that the kernel reads (of `formatNames`). Default: the formats of the resident model. */
  readonly dtypes?: readonly string[] | undefined;
}

export interface Finding {
  /** snake_case, stable. */
  readonly code: string;
  readonly severity: 'error' | 'warning' | 'info';
  readonly message: string;
  /** Line in the author's source, from 1. */
  readonly line?: number;
  readonly column?: number;
  /** Length in UTF-16 code units. */
  readonly length?: number;
}

export type StageName = 'parse' | 'interface' | 'safety' | 'pipeline' | 'parity';

export interface Stage {
  readonly stage: StageName;
  /**
   * True when no finding is an error. Stages after a failed one do not run, except that safety runs after interface.
   */
  readonly ok: boolean;
  readonly findings: readonly Finding[];
}

/** Result of one parity case. */
export interface CaseVerdict {
  /** Name of the case, for example `random 3x64x96 q8_0`. */
  readonly case: string;
  readonly ok: boolean;
  readonly nmse: number;
  /** Largest tolerated NMSE, by op, weight format and parity mode. */
  readonly nmse_limit: number;
  readonly max_abs: number;
  readonly max_rel: number;
  readonly matched_ratio: number;
  readonly worst: {
    readonly output: string;
    readonly index: number;
    readonly expected: number;
    readonly got: number;
  };
  /** Error of the built-in kernel on the same input. */
  readonly builtin?: { readonly nmse: number; readonly max_abs: number };
}

export interface Tolerance {
  readonly nmse: number;
  /** Relative to the largest expected magnitude. */
  readonly max_abs: number;
  /** Smallest fraction of the elements that must be near their expected value. */
  readonly matched_ratio: number;
}

export interface ParityMode {
  readonly mode: 'strict' | 'standard' | 'off';
  /** Factor for the tolerances, 0.01 to 10. */
  readonly tolerance_scale?: number | undefined;
  /** Seed of the gate's inputs, to repeat a run. Default: a random seed. */
  readonly seed?: number | undefined;
}

export interface KernelRegistrationReport {
  readonly kernel: string;
  /** `sha256:<hex>` of everything that defines the computation; see `kernelDigest`. */
  readonly digest: string;
  readonly accepted: boolean;
  /** True under parity mode `off`: the kernel was compiled but not compared. */
  readonly unverified?: boolean;
  readonly stages: readonly Stage[];
  readonly parity?: readonly CaseVerdict[];
  readonly tolerance?: Tolerance & { readonly scale: number; readonly mode: ParityMode['mode'] };
  /** Seed of the inputs. */
  readonly seed?: number;
  /** Fastest overrides for each shape, when the registration has tunables. */
  readonly tuning?: readonly TunedShape[];
  readonly elapsed_ms: number;
}

export interface TunedShape {
  /** Dims and weight format, for example `tokens=1 rows=96 columns=64 q8_0`. */
  readonly shape: string;
  readonly best: Readonly<Record<string, number>>;
  /** GPU time of one dispatch. */
  readonly best_ms: number;
  readonly builtin_ms?: number;
  readonly tried: readonly { readonly overrides: Readonly<Record<string, number>>; readonly ms: number }[];
}

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

/** Response body of GET /lab/v1/graph: the execution graph of the resident model. */
export interface LabGraph {
  readonly model: string;
  readonly nodes: readonly {
    readonly id: string;
    readonly op: string;
    /** Dispatch that runs the node now. Nodes that are fused into one dispatch have the same component. */
    readonly component: string;
    readonly slot: string;
    /** `builtin:<source>?<variant>` or the name of a registered kernel. */
    readonly kernel: string;
    readonly dtype: string;
    /** Shape of the output: one row for each token. */
    readonly shape: readonly (number | string)[];
    /** For one decoded token. */
    readonly flops: number;
    readonly bytes: number;
    readonly gpu_ms?: number;
  }[];
  readonly edges: readonly {
    readonly from: string;
    readonly to: string;
    readonly tensor: string;
    readonly dtype: string;
    readonly shape: readonly (number | string)[];
  }[];
  readonly spans: readonly {
    readonly id: string;
    /** A kernel that replaces the whole span must be registered for this op. */
    readonly op: string;
    readonly nodes: readonly string[];
    /** Kernel that runs the whole span now, if one does. */
    readonly fused_kernel?: string;
  }[];
}

/** Response body of GET /lab/v1/parts. */
export interface LabParts {
  readonly components: readonly {
    readonly id: string;
    readonly op: string;
    readonly kernel: string;
    readonly layer?: number;
  }[];
  readonly slots: readonly {
    readonly slot: string;
    readonly op: string;
    readonly oracle: string;
    readonly swappable: boolean;
    /** Names of the kernels that can be bound to the slot. */
    readonly compatible: readonly string[];
    readonly bound: string;
  }[];
  /** All registered kernels. */
  readonly kernels: readonly {
    readonly name: string;
    readonly op: string;
    readonly digest: string;
    readonly state: 'accepted' | 'rejected' | 'unverified' | 'quarantined';
  }[];
}

export interface BindRequest {
  readonly kernel: string;
  /** Globs over the ids of components and spans: `*` matches within a segment, `**` also across dots. */
  readonly components?: readonly string[] | undefined;
  /** Id of a span, or a glob over span ids. */
  readonly span?: string | undefined;
}

export interface BindOutcome {
  readonly bound: true;
  /** Ids of the components and spans that the kernel now runs. */
  readonly components: readonly string[];
  /** Names of the kernels that were bound there before and are replaced. */
  readonly replaced: readonly string[];
}

export interface ParityRunResult {
  readonly seed: number;
  readonly ok: boolean;
  readonly mode: ParityMode['mode'];
  readonly tolerance_scale: number;
  readonly components: readonly {
    readonly id: string;
    readonly kernel: string;
    readonly nmse: number;
    readonly nmse_limit: number;
    readonly max_abs: number;
    readonly ok: boolean;
  }[];
  readonly logits: { readonly kl: number; readonly top1_agreement: number; readonly positions: number };
}

export interface BenchRequest {
  /** Prompt length for the prefill measurement. */
  readonly prompt_tokens?: number | undefined;
  /** Tokens to decode in each round. */
  readonly new_tokens?: number | undefined;
  readonly rounds?: number | undefined;
  /** Context lengths at which decode is measured. */
  readonly contexts?: readonly number[] | undefined;
  readonly mode?: 'quick' | 'full' | undefined;
  readonly seed?: number | undefined;
}

/** Progress of a bench. It waits for the device, then runs the stages in this order. */
export type BenchProgress =
  | { readonly stage: 'waiting' | 'peaks' | 'warm_up' | 'outputs' | 'components' }
  | BenchRound;

/** A finished round. */
export interface BenchRound {
  readonly stage: 'round';
  /** From 1. */
  readonly round: number;
  /** Smallest and largest number of rounds that this bench can have. */
  readonly least: number;
  readonly most: number;
  readonly samples: readonly {
    readonly kind: 'prefill' | 'decode';
    /** Decode: the context length. Prefill: the prompt length. */
    readonly context: number;
    readonly tokens: number;
    readonly baseline_ms: number;
    readonly bound_ms: number;
    readonly control_ms: number;
  }[];
}

export type BenchVerdict = 'faster' | 'slower' | 'no_difference' | 'suspect';

export interface Interval {
  readonly low: number;
  readonly high: number;
}

/** Time of the baseline divided by the time of the bound kernels: above 1, the bound kernels are faster. */
export interface Comparison {
  readonly ratio: number;
  readonly ci95: Interval;
  /** The same ratio with the built-in kernels in both arms: the noise of the measurement. */
  readonly control: { readonly ratio: number; readonly ci95: Interval };
  readonly verdict: BenchVerdict;
}

export interface BenchResult {
  readonly baseline: { readonly prefill_tps: number; readonly decode_tps: number };
  readonly bound: { readonly prefill_tps: number; readonly decode_tps: number };
  /** Ratios minus 1. */
  readonly delta: { readonly prefill: number; readonly decode: number };
  /** Confidence interval of the decode ratio. */
  readonly ratio_ci95: readonly [number, number];
  readonly verdict: BenchVerdict;
  readonly rounds: number;
  readonly method: string;
  readonly prefill: Comparison & { readonly prompt_tokens: number };
  readonly decode: readonly (Comparison & {
    readonly context: number;
    readonly baseline_tps: number;
    readonly bound_tps: number;
  })[];
  readonly components: readonly {
    readonly id: string;
    readonly kernel: string;
    readonly gpu_ms: number;
    readonly baseline_ms?: number;
    readonly gbps: number;
    readonly gflops: number;
    readonly bandwidth_fraction: number;
    readonly compute_fraction: number;
    /** Fraction of the binding roof: copy bandwidth or arithmetic, both measured on this adapter. */
    readonly peak_fraction: number;
    readonly hint: string;
  }[];
  /** Measured limits of the adapter. `cached_gbps` is the bandwidth of reads that the caches can serve. */
  readonly peaks: { readonly gbps: number; readonly cached_gbps: number; readonly gflops: number };
  /** For example: times drifted over the rounds, outputs differ from the baseline, the adapter has no timestamps. */
  readonly warnings: readonly string[];
  readonly fingerprint: Fingerprint;
}

export interface Fingerprint {
  readonly adapter: string;
  readonly backend: string;
  /** Driver description that the adapter reports. */
  readonly driver: string;
  readonly dawn: string;
  /** Dawn toggles that the host sets. */
  readonly toggles: readonly string[];
  readonly features: readonly string[];
  readonly model: string;
  /** Kernel digests by name. */
  readonly kernels: Readonly<Record<string, string>>;
  readonly seed: number;
}

export interface OpDescriptor {
  readonly op: string;
  readonly [member: string]: unknown;
}

/** A saved, signed config. */
export interface ConfigEnvelope {
  readonly contract: 1;
  readonly name: string;
  readonly model: { readonly digest: string; readonly architecture: string };
  readonly bindings: readonly { readonly kernel: string; readonly components: readonly string[] }[];
  readonly kernels: readonly (KernelRegistration & { readonly digest: string })[];
  /** Registration report of each kernel, by kernel name. */
  readonly evidence: Readonly<Record<string, KernelRegistrationReport>>;
  readonly fingerprint: Fingerprint;
  readonly created_at: string;
  readonly signature: {
    readonly alg: 'ed25519';
    readonly key_id: string;
    /** Base64, like `value`. Another host uses it to check the signature; it trusts the key by its id. */
    readonly public_key: string;
    readonly value: string;
  };
}

export interface ValidationReport {
  readonly ok: boolean;
  readonly stages: readonly {
    readonly stage: 'signature' | 'safety' | 'parity';
    readonly ok: boolean;
    readonly skipped?: true;
    readonly findings: readonly Finding[];
  }[];
}

/** Operations of the lab plane. They throw `LabError`. */
export interface Lab {
  graph(): Promise<LabGraph>;
  parts(): Promise<LabParts>;
  ops(): readonly OpDescriptor[];
  /** Throws `unknown_op`, and `invalid_target` for a target that the op or the adapter does not support. */
  stub(op: string, target?: string): { op: string; target: string; source: string };
  register(registration: KernelRegistration, signal: AbortSignal): Promise<KernelRegistrationReport>;
  /** Throws `unknown_kernel`, `not_bindable`, `unknown_component`, `incompatible_component`. */
  bind(request: BindRequest): Promise<BindOutcome>;
  unbind(): Promise<void>;
  readonly parityMode: ParityMode;
  setParityMode(mode: ParityMode): ParityMode;
  /** Runs exclusively, like `bench`: waits until no completion is running or queued. `signal` cancels it. */
  runParity(signal: AbortSignal): Promise<ParityRunResult>;
  bench(
    request: BenchRequest,
    signal: AbortSignal,
    onProgress?: (progress: BenchProgress) => void,
  ): Promise<BenchResult>;
  /** Checks signature, safety and parity evidence. Nothing is run. */
  validate(request: { path?: string | undefined; envelope?: unknown }): Promise<ValidationReport>;
  configNames(): Promise<readonly string[]>;
  /** Throws `invalid_name`, `nothing_bound`. */
  saveConfig(name: string): Promise<ConfigEnvelope>;
  /** Returns canonical JSON. Throws `invalid_name`, `unknown_config`. */
  config(name: string): Promise<string>;
}

export type LabErrorCode =
  | 'unknown_op'
  | 'invalid_target'
  | 'unknown_kernel'
  | 'not_bindable'
  | 'unknown_component'
  | 'incompatible_component'
  | 'invalid_name'
  | 'unknown_config'
  | 'nothing_bound'
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
