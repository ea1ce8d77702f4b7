/** Shapes that the lab's parts share; members in snake_case go over the wire as they are. */

import { isPortableName } from '../words/portable-name.ts';

export { formatNames } from '../../kernels/formats.ts';

/** What a kernel may be called. */
export const kernelName = /^[a-z][a-z0-9_.-]{0,63}$/;

/** Whether a config may be called so: a plain file name that cannot leave its directory. */
export const isConfigName = (name: string): boolean =>
  /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(name) && !name.includes('..') && isPortableName(name);

/** What a kernel author registers. */
export interface KernelRegistration {
  /** Matches `kernelName`. */
  readonly name: string;
  /** A key of `contracts`. */
  readonly op: string;
  /** WGSL. */
  readonly source: string;
  /** Default `main`. */
  readonly entry_point?: string | undefined;
  /** Expressions over the op's dims and the overrides; what is absent is 1. */
  readonly dispatch: { readonly x: string; readonly y?: string | undefined; readonly z?: string | undefined };
  /** Values of the module's overrides. */
  readonly overrides?: Readonly<Record<string, number>> | undefined;
  /** Overrides with the values to try. */
  readonly tunables?: Readonly<Record<string, readonly number[]>> | undefined;
  readonly requires?: readonly ('shader-f16' | 'subgroups')[] | undefined;
  /** Weight formats that the kernel reads (one of `formatNames`); the model's own when absent. */
  readonly dtypes?: readonly string[] | undefined;
}

export interface Finding {
  /** snake_case, stable. */
  readonly code: string;
  readonly severity: 'error' | 'warning' | 'info';
  readonly message: string;
  /** Of the author's source, from 1. */
  readonly line?: number;
  readonly column?: number;
  /** Characters (UTF-16). */
  readonly length?: number;
}

export type StageName = 'parse' | 'interface' | 'safety' | 'pipeline' | 'parity';

export interface Stage {
  readonly stage: StageName;
  /** No finding is an error. What is behind a failed stage is left out, but for safety behind interface. */
  readonly ok: boolean;
  readonly findings: readonly Finding[];
}

/** One parity case. */
export interface CaseVerdict {
  /** For example `random 3x64x96 q8_0`. */
  readonly case: string;
  readonly ok: boolean;
  readonly nmse: number;
  /** What is tolerated, by op, weight format and parity mode. */
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
  /** The built-in kernel's own error on the same input. */
  readonly builtin?: { readonly nmse: number; readonly max_abs: number };
}

export interface Tolerance {
  readonly nmse: number;
  /** As a part of the greatest expected magnitude. */
  readonly max_abs: number;
  /** Least part of the elements that are near their expected value. */
  readonly matched_ratio: number;
}

export interface ParityMode {
  readonly mode: 'strict' | 'standard' | 'off';
  /** 0.01 to 10; multiplies the tolerances. */
  readonly tolerance_scale?: number | undefined;
  /** Makes the inputs of the gate repeatable; a fresh one is drawn when absent. */
  readonly seed?: number | undefined;
}

export interface KernelRegistrationReport {
  readonly kernel: string;
  /** `sha256:<hex>` over what the kernel computes: op, source, entry point, dispatch, overrides, requirements. */
  readonly digest: string;
  readonly accepted: boolean;
  /** Parity mode `off`: compiled, not compared. */
  readonly unverified?: boolean;
  readonly stages: readonly Stage[];
  readonly parity?: readonly CaseVerdict[];
  readonly tolerance?: Tolerance & { readonly scale: number; readonly mode: ParityMode['mode'] };
  /** Of the inputs. */
  readonly seed?: number;
  /** Best overrides by shape, when there are tunables. */
  readonly tuning?: readonly TunedShape[];
  readonly elapsed_ms: number;
}

export interface TunedShape {
  /** Dims as text, for example `tokens=1 rows=96 columns=64 q8_0`. */
  readonly shape: string;
  readonly best: Readonly<Record<string, number>>;
  /** GPU time of one dispatch. */
  readonly best_ms: number;
  readonly builtin_ms?: number;
  readonly tried: readonly { readonly overrides: Readonly<Record<string, number>>; readonly ms: number }[];
}

/** Values of a contract's dims. */
export type Dims = Readonly<Record<string, number>>;

/** Contents of one binding as it lies on the GPU. f16 and weights are packed words. */
export type TensorData = Float32Array<ArrayBuffer> | Uint32Array<ArrayBuffer>;

/** One input for a kernel, and where its dims and parameters come from. */
export interface ParityCase {
  /** `random`, `ragged`, `extreme`, `one_row`, `captured` or `live`, then the shape. */
  readonly name: string;
  readonly dims: Dims;
  /** Weight format, for ops that read weights. */
  readonly format?: string;
  /** Every storage binding but those of role `out`; `inout` ones with their first contents. */
  readonly tensors: Readonly<Record<string, TensorData>>;
  /** Members of `params`. */
  readonly params: Readonly<Record<string, number>>;
}

/** What an output should hold. */
export interface ExpectedOutput {
  /** By element of the binding: f32 values, f16 values, or u32 values. */
  readonly values: Float64Array;
  /** Elements that the contract leaves open or that must keep their first contents (compared bit by bit when kept). */
  readonly kept?: Uint8Array;
  readonly open?: Uint8Array;
}

/** What the gate must know of the resident model: shapes that occur in it, and real activations. */
export interface LiveShapes {
  /** By op: the dims and params of its components, each different one once, with the weights' format. */
  readonly byOp: Readonly<
    Record<string, readonly { dims: Dims; params: Readonly<Record<string, number>>; format?: string }[]>
  >;
  /** By op: inputs captured from the model, as cases; empty when there are none. */
  readonly captured: Readonly<Record<string, readonly ParityCase[]>>;
}

/** The live graph as `/lab/v1/graph` shows it. */
export interface LabGraph {
  readonly model: string;
  readonly nodes: readonly {
    readonly id: string;
    readonly op: string;
    /** Unit that runs it now: nodes of one dispatch share it. */
    readonly component: string;
    readonly slot: string;
    /** `builtin:<source>?<variant>` or the name of a registered kernel. */
    readonly kernel: string;
    readonly dtype: string;
    /** Of the output, a row a token. */
    readonly shape: readonly (number | string)[];
    /** Of one decoded token. */
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
    /** Op that a kernel must be registered for to take the span over. */
    readonly op: string;
    readonly nodes: readonly string[];
    /** The kernel that runs the whole span now. */
    readonly fused_kernel?: string;
  }[];
}

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
    /** Accepted kernels that may be bound to it. */
    readonly compatible: readonly string[];
    readonly bound: string;
  }[];
  /** Registered kernels. */
  readonly kernels: readonly {
    readonly name: string;
    readonly op: string;
    readonly digest: string;
    readonly state: 'accepted' | 'rejected' | 'unverified' | 'quarantined';
  }[];
}

export interface BindRequest {
  readonly kernel: string;
  /** Globs over ids of components and spans: `*` within a segment, `**` over dots. */
  readonly components?: readonly string[] | undefined;
  /** One span id or a glob over them. */
  readonly span?: string | undefined;
}

export interface BindOutcome {
  readonly bound: true;
  /** Ids of what the kernel now runs. */
  readonly components: readonly string[];
  /** Kernels that ran there before and no longer do. */
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
  /** Length of the prompts whose prefill is measured. */
  readonly prompt_tokens?: number | undefined;
  /** Tokens decoded a round. */
  readonly new_tokens?: number | undefined;
  readonly rounds?: number | undefined;
  /** Positions at which decode is measured. */
  readonly contexts?: readonly number[] | undefined;
  readonly mode?: 'quick' | 'full' | undefined;
  readonly seed?: number | undefined;
}

/** What a bench is at: it waits for the device, and then in this order. */
export type BenchProgress =
  | { readonly stage: 'waiting' | 'peaks' | 'warm_up' | 'outputs' | 'components' }
  | BenchRound;

/** A round that has ended. */
export interface BenchRound {
  readonly stage: 'round';
  /** From 1. */
  readonly round: number;
  /** Rounds there will be. */
  readonly least: number;
  readonly most: number;
  readonly samples: readonly {
    readonly kind: 'prefill' | 'decode';
    /** Position that is decoded at; of a prompt its length. */
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

/** Ratio of times, baseline by bound: above 1 means that the bound kernels are faster. */
export interface Compared {
  readonly ratio: number;
  readonly ci95: Interval;
  /** The same of the built-ins against themselves. */
  readonly control: { readonly ratio: number; readonly ci95: Interval };
  readonly verdict: BenchVerdict;
}

export interface BenchResult {
  readonly baseline: { readonly prefill_tps: number; readonly decode_tps: number };
  readonly bound: { readonly prefill_tps: number; readonly decode_tps: number };
  /** Ratios minus 1. */
  readonly delta: { readonly prefill: number; readonly decode: number };
  /** Of decode. */
  readonly ratio_ci95: readonly [number, number];
  readonly verdict: BenchVerdict;
  readonly rounds: number;
  readonly method: string;
  readonly prefill: Compared & { readonly prompt_tokens: number };
  readonly decode: readonly (Compared & {
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
    /** Of the nearer roof: copy bandwidth or arithmetic, both measured on this adapter. */
    readonly peak_fraction: number;
    readonly hint: string;
  }[];
  /** `cached_gbps`: of reads that caches can serve. */
  readonly peaks: { readonly gbps: number; readonly cached_gbps: number; readonly gflops: number };
  /** A drift over the rounds, outputs that no longer were the same, an adapter without timestamps. */
  readonly warnings: readonly string[];
  readonly fingerprint: Fingerprint;
}

export interface Fingerprint {
  readonly adapter: string;
  readonly backend: string;
  /** As it names itself. */
  readonly driver: string;
  readonly dawn: string;
  /** Dawn's, switched by the host. */
  readonly toggles: readonly string[];
  readonly features: readonly string[];
  readonly model: string;
  /** Name to digest. */
  readonly kernels: Readonly<Record<string, string>>;
  readonly seed: number;
}

export interface OpDescriptor {
  readonly op: string;
  readonly [member: string]: unknown;
}

/** A saved config, signed. */
export interface ConfigEnvelope {
  readonly contract: 1;
  readonly name: string;
  readonly model: { readonly digest: string; readonly architecture: string };
  readonly bindings: readonly { readonly kernel: string; readonly components: readonly string[] }[];
  readonly kernels: readonly (KernelRegistration & { readonly digest: string })[];
  /** By kernel: the report of its gate. */
  readonly evidence: Readonly<Record<string, KernelRegistrationReport>>;
  readonly fingerprint: Fingerprint;
  readonly created_at: string;
  readonly signature: {
    readonly alg: 'ed25519';
    readonly key_id: string;
    /** Base64, like `value`: lets another host check the signature and trust the key by its id. */
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

/** Everything the lab plane does. Refusals are `LabError`s. */
export interface Lab {
  graph(): Promise<LabGraph>;
  parts(): Promise<LabParts>;
  ops(): readonly OpDescriptor[];
  /** Throws `unknown_op`; `invalid_target` for a target that this adapter or op does not have. */
  stub(op: string, target?: string): { op: string; target: string; source: string };
  register(registration: KernelRegistration, signal: AbortSignal): Promise<KernelRegistrationReport>;
  /** Throws `unknown_kernel`, `not_bindable`, `unknown_component`, `incompatible_component`. */
  bind(request: BindRequest): Promise<BindOutcome>;
  unbind(): Promise<void>;
  readonly parityMode: ParityMode;
  setParityMode(mode: ParityMode): ParityMode;
  /** Both wait until no completion runs or waits; `signal` cancels. */
  runParity(signal: AbortSignal): Promise<ParityRunResult>;
  bench(
    request: BenchRequest,
    signal: AbortSignal,
    onProgress?: (progress: BenchProgress) => void,
  ): Promise<BenchResult>;
  /** Static: signature, safety, parity evidence. */
  validate(request: { path?: string | undefined; envelope?: unknown }): Promise<ValidationReport>;
  configNames(): Promise<readonly string[]>;
  /** Throws `invalid_name`, `nothing_bound`. */
  saveConfig(name: string): Promise<ConfigEnvelope>;
  /** Throws `invalid_name`, `unknown_config`. The text is canonical JSON. */
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
