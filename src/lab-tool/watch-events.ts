import type { BenchResult } from '../lab/types.ts';
import type { GateOutcome } from './register-kernel.ts';

/** Events of a watch session, in order. */
export type WatchEvent =
  | { readonly event: 'start'; readonly url: string; readonly files: readonly string[] }
  | { readonly event: 'gating'; readonly file: string }
  /** Results for all kernels of a file after a save. */
  | { readonly event: 'gate'; readonly file: string; readonly outcomes: readonly GateOutcome[] }
  | { readonly event: 'file_unreadable'; readonly file: string; readonly message: string }
  | {
      readonly event: 'bound';
      readonly file: string;
      readonly kernel: string;
      readonly components: readonly string[];
    }
  | {
      readonly event: 'bind_refused';
      readonly file: string;
      readonly kernel: string;
      readonly message: string;
    }
  | { readonly event: 'benching' }
  | { readonly event: 'bench'; readonly result: BenchResult }
  | { readonly event: 'bench_failed'; readonly message: string }
  | { readonly event: 'host_gone'; readonly message: string }
  | { readonly event: 'host_back' }
  | { readonly event: 'quarantined'; readonly file: string; readonly kernel: string }
  | { readonly event: 'stop'; readonly unbound: boolean; readonly failures: readonly string[] };

export type WatchView = (event: WatchEvent) => void;
