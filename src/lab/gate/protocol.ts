/** Messages between the host and the child process. Typed arrays are sent by structured clone. */
import type {
  KernelRegistration,
  KernelRegistrationReport,
  LabProfile,
  LiveShapes,
  ParityMode,
  ProfilePhase,
  Stage,
  StageName,
  TunedShape,
} from '../types.ts';
import type { Phase } from './time-limits.ts';

/** One registration to check. */
export interface GateJob {
  readonly registration: KernelRegistration;
  readonly mode: ParityMode['mode'];
  /** Factor for the tolerances, 0.01 to 10. */
  readonly toleranceScale: number;
  /** Seed of all inputs, 32 bits. */
  readonly seed: number;
  /** Weight formats of the resident model, used when the registration has no `dtypes`. */
  readonly formats: readonly string[];
  readonly live: LiveShapes;
}

/** A kernel to profile. */
export interface ProfileJob extends Pick<GateJob, 'registration' | 'formats' | 'live' | 'seed'> {
  /** From the registration's report: a shape is profiled with the overrides that it is bound with. */
  readonly tuning: readonly TunedShape[] | undefined;
  readonly lanes: number;
  readonly phase: ProfilePhase;
  /** Whether the adapter of the host is a software implementation on the CPU. */
  readonly isSoftware: boolean;
}

/** The host sends the next job after the answer to the last one. */
export type ToChild =
  | { readonly type: 'register'; readonly job: GateJob }
  | { readonly type: 'profile'; readonly job: ProfileJob };

export type FromChild =
  /** The device is open, and Tint and the driver's compiler are warm. */
  | { readonly type: 'ready'; readonly load: number }
  /** No device could be opened. */
  | { readonly type: 'unusable'; readonly message: string }
  | { readonly type: 'begin'; readonly stage: StageName }
  | { readonly type: 'end'; readonly stage: Stage }
  /** A new phase begins. */
  | { readonly type: 'phase'; readonly phase: Phase; readonly load: number }
  | { readonly type: 'report'; readonly report: KernelRegistrationReport }
  | { readonly type: 'profiled'; readonly profile: LabProfile }
  /** The kernel cannot be profiled. */
  | { readonly type: 'not_profiled'; readonly message: string }
  /** The gate threw an error. */
  | { readonly type: 'failed'; readonly message: string }
  /** The device was lost; the child exits. */
  | { readonly type: 'lost'; readonly message: string };
