import type { KernelHistory } from '../lab/types.ts';
import type { Engine, EngineOptions } from '../engine/index.ts';
import type { GrammarService } from '../grammar/types.ts';
import type { Lab } from '../lab/types.ts';
import type { PullProgress } from '../pull/pull.ts';
import type { Terminal } from './progress.ts';
import type { SignalSource } from '../terminal/stop-signals.ts';

interface PullRequest {
  readonly repo: string;
  readonly file?: string;
  readonly revision?: string;
  /** Folder that holds the pulled models. */
  readonly destination: string;
  readonly token?: string;
  readonly endpoint?: string;
  /** Progress in bytes. */
  readonly onProgress: (progress: PullProgress) => void;
  /** Messages for the waiting user. */
  readonly onNotice: (message: string) => void;
  readonly signal: AbortSignal;
}

interface LabRequest {
  /** Engine that `loadEngine` returned. */
  readonly engine: Engine;
  readonly dataDir: string;
  readonly adapter?: string | undefined;
  readonly trustedKeys: readonly string[];
  readonly allowUnverified: boolean;
  /** Registrations of earlier processes. */
  readonly history: KernelHistory;
  /** Name of the saved config to bind. */
  readonly config?: string | undefined;
  readonly onNotice: (message: string) => void;
  /** Warnings for the operator, printed also with `--quiet`. */
  readonly onWarning: (message: string) => void;
  readonly signal: AbortSignal;
}

/** The lab of the resident model. */
export interface OpenLab {
  readonly lab: Lab;
  readonly close: () => Promise<void>;
}

/** What the command line gets from the process. Only `host.ts` creates the real one; tests create their own. */
export interface CliContext {
  /** Arguments without the program name. */
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly home: string;
  /** Folder of `models/` and `package.json`. */
  readonly packageRoot: string;
  readonly stdout: Terminal;
  readonly stderr: Terminal;
  readonly signals: SignalSource;
  readonly exit: (code: number) => void;
  /** Milliseconds since the process started. */
  readonly elapsedMs: () => number;
  /** Path of a worker thread's entry file. */
  readonly entry: (name: 'observe-worker' | 'recorder-worker') => string;
  readonly loadEngine: (options: EngineOptions) => Promise<Engine>;
  /** Undefined if the host has no lab. */
  readonly openLab: (request: LabRequest) => Promise<OpenLab | undefined>;
  /** Grammar compiler for constrained output of this engine. Undefined if the host has none. */
  readonly openGrammars: (engine: Engine) => Promise<GrammarService | undefined>;
  readonly pull: (request: PullRequest) => Promise<{ path: string; alreadyPresent: boolean }>;
}
