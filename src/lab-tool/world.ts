import type { SignalSource } from '../terminal/stop-signals.ts';
import type { Terminal } from '../terminal/terminal.ts';

/** What the tool gets from the process; only `lab.ts` makes the real one. */
export interface LabWorld {
  /** Without the program's own name. */
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Where `package.json` lies. */
  readonly packageRoot: string;
  readonly stdout: Terminal;
  readonly stderr: Terminal;
  readonly signals: SignalSource;
  /** Aborts when nobody reads stdout any more. */
  readonly readerGone: AbortSignal;
  /** Also runs where an error that nobody caught ends the process. */
  readonly atExit: (listener: () => void) => unknown;
  readonly exit: (code: number) => void;
}
