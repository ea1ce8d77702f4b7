/** Messages between the host and the child that runs candidates; typed arrays travel as they are. */
import type {
  KernelRegistration,
  KernelRegistrationReport,
  LiveShapes,
  ParityMode,
  Stage,
  StageName,
} from '../types.ts';
import type { Phase } from './time-limits.ts';

/** One registration to gate. */
export interface GateJob {
  readonly registration: KernelRegistration;
  readonly mode: ParityMode['mode'];
  /** 0.01 to 10. */
  readonly toleranceScale: number;
  /** 32 bits: of all inputs. */
  readonly seed: number;
  /** Weight formats of the resident model; the registration's own `dtypes` win. */
  readonly formats: readonly string[];
  readonly live: LiveShapes;
}

/** One at a time. */
export interface ToChild {
  readonly type: 'register';
  readonly job: GateJob;
}

export type FromChild =
  /** The device is open, and Tint and the driver's compiler have run once. */
  | { readonly type: 'ready'; readonly load: number }
  /** No device: nothing can be gated. */
  | { readonly type: 'unusable'; readonly message: string }
  | { readonly type: 'begin'; readonly stage: StageName }
  | { readonly type: 'end'; readonly stage: Stage }
  /** What takes the time from now on. */
  | { readonly type: 'phase'; readonly phase: Phase; readonly load: number }
  | { readonly type: 'report'; readonly report: KernelRegistrationReport }
  /** The gate itself threw. */
  | { readonly type: 'failed'; readonly message: string }
  /** The device is gone; the child ends itself. */
  | { readonly type: 'lost'; readonly message: string };
