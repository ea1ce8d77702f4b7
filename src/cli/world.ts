import type { Engine, EngineOptions } from '../engine/index.ts';
import type { Terminal } from './progress.ts';
import type { SignalSource } from './signals.ts';

interface PullRequest {
  readonly repo: string;
  readonly file?: string;
  readonly revision?: string;
  /** The folder of the models. */
  readonly destination: string;
  readonly token?: string;
  readonly endpoint?: string;
  /** In bytes. */
  readonly onProgress: (progress: { file: string; done: number; total: number }) => void;
  readonly signal: AbortSignal;
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
  readonly loadEngine: (options: EngineOptions) => Promise<Engine>;
  readonly pull: (request: PullRequest) => Promise<{ path: string; alreadyThere: boolean }>;
}
