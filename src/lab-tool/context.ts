import type { Flags } from './arguments.ts';
import type { LabClient } from './client.ts';
import type { OutputStyle } from '../terminal/style.ts';
import type { ToolEnvironment } from './tool-environment.ts';

/** Dependencies and arguments of a command. */
export interface Context {
  readonly client: LabClient;
  readonly words: readonly string[];
  readonly flags: Flags;
  readonly look: OutputStyle;
  readonly environment: ToolEnvironment;
  /** Prints the result: as JSON with `--json`, else as lines. */
  readonly print: (document: unknown, lines: () => readonly string[]) => void;
}

export const exitCodes = { fine: 0, failed: 1, usage: 2, host: 3 } as const;

/** Runs a command and returns the exit code. */
export type CommandHandler = (context: Context) => Promise<number>;
