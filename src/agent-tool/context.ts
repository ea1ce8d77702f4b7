import type { Lathe } from '../client/index.ts';
import type { SignalSource } from '../terminal/stop-signals.ts';
import type { OutputStyle } from '../terminal/style.ts';
import type { Terminal } from '../terminal/terminal.ts';
import type { AgentFlags } from './command-table.ts';
import type { Input, InputStream } from './input.ts';

/** Process environment of the tool, created by `agent.ts` and replaced in tests. */
export interface ToolEnvironment {
  /** How a person calls this program again, for hints. */
  readonly program: string;
  /** Command-line arguments without the program name. */
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** undefined when the folder is gone. */
  readonly cwd: string | undefined;
  /** Folder of `package.json`. */
  readonly packageRoot: string;
  readonly stdin: InputStream;
  readonly stdout: Terminal;
  readonly stderr: Terminal;
  readonly signals: SignalSource;
  /** Aborts when the reader of stdout is gone. */
  readonly stdoutClosed: AbortSignal;
  readonly exit: (code: number) => void;
  /** Registers what runs when the process ends. */
  readonly onExit: (listener: () => void) => void;
}

export interface Context {
  readonly lathe: Lathe;
  readonly words: readonly string[];
  readonly flags: AgentFlags;
  readonly environment: ToolEnvironment;
  /** The working folder. */
  readonly cwd: string;
  readonly input: Input;
  readonly look: OutputStyle;
  readonly write: (text: string) => void;
}

export const exitCodes = { fine: 0, failed: 1, usage: 2, host: 3 } as const;

/** Runs a command and returns the exit code. */
export type CommandHandler = (context: Context) => Promise<number>;
