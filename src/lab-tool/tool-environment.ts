import type { SignalSource } from '../terminal/stop-signals.ts';
import type { Terminal } from '../terminal/terminal.ts';

/** Process environment of the tool, created by `lab.ts` and replaced in tests. */
export interface ToolEnvironment {
  /** Command-line arguments without the program name. */
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Folder of `package.json`. */
  readonly packageRoot: string;
  readonly stdout: Terminal;
  readonly stderr: Terminal;
  readonly signals: SignalSource;
  /** Aborts when the reader of stdout is gone. */
  readonly stdoutClosed: AbortSignal;
  /** Adds an exit listener, which also runs after an uncaught error. */
  readonly atExit: (listener: () => void) => unknown;
  readonly exit: (code: number) => void;
}
