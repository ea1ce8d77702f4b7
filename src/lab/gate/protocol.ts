/** Messages between the host and the child process. Typed arrays are sent by structured clone. */
import type {
  KernelRegistration,
  KernelRegistrationReport,
  LiveShapes,
  ParityMode,
  Stage,
  StageName,
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

/** The host sends the next job after the report of the last one. */
export interface ToChild {
  readonly type: 'register';
  readonly job: GateJob;
}

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
  /** The gate threw an error. */
  | { readonly type: 'failed'; readonly message: string }
  /** The device was lost; the child exits. */
  | { readonly type: 'lost'; readonly message: string };
