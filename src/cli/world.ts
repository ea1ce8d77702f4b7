import type { Engine, EngineOptions } from '../engine/index.ts';
import type { Grammars } from '../grammar/types.ts';
import type { Lab } from '../lab/types.ts';
import type { PullProgress } from '../pull/index.ts';
import type { Terminal } from './progress.ts';
import type { SignalSource } from '../terminal/stop-signals.ts';

interface PullRequest {
  readonly repo: string;
  readonly file?: string;
  readonly revision?: string;
  /** The folder of the models. */
  readonly destination: string;
  readonly token?: string;
  readonly endpoint?: string;
  /** In bytes. */
  readonly onProgress: (progress: PullProgress) => void;
  /** What a person who waits should know. */
  readonly onNotice: (message: string) => void;
  readonly signal: AbortSignal;
}

interface LabRequest {
  /** As `loadEngine` gave it. */
  readonly engine: Engine;
  readonly dataDir: string;
  readonly adapter?: string | undefined;
  readonly trustedKeys: readonly string[];
  readonly allowUnverified: boolean;
  /** Saved config to bind. */
  readonly config?: string | undefined;
  readonly onNotice: (message: string) => void;
  /** What an operator must hear of, also with `--quiet`. */
  readonly onWarning: (message: string) => void;
  readonly signal: AbortSignal;
}

/** The lab of the resident model; `close` is an orderly end. */
export interface OpenLab {
  readonly lab: Lab;
  readonly close: () => Promise<void>;
}

/** What the program gets from the process; only `host.ts` makes the real one. */
export interface World {
  /** Without the program's own name. */
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly home: string;
  /** Where `models/` and `package.json` lie. */
  readonly packageRoot: string;
  readonly stdout: Terminal;
  readonly stderr: Terminal;
  readonly signals: SignalSource;
  readonly exit: (code: number) => void;
  /** Since the process began. */
  readonly elapsedMs: () => number;
  /** The path of another entry of the program: of a thread. */
  readonly entry: (name: 'observe-worker' | 'recorder-worker') => string;
  readonly loadEngine: (options: EngineOptions) => Promise<Engine>;
  /** Undefined where a host has none. */
  readonly openLab: (request: LabRequest) => Promise<OpenLab | undefined>;
  /** What compiles grammars for answers of this engine; undefined where a host has none. */
  readonly openGrammars: (engine: Engine) => Promise<Grammars | undefined>;
  readonly pull: (request: PullRequest) => Promise<{ path: string; alreadyThere: boolean }>;
}
