import type { OutputStyle } from '../terminal/style.ts';
import type { Flags } from './arguments.ts';
import type { Source } from './source.ts';
import type { ObserveCliContext } from './cli-context.ts';

/** Context of a command. */
export interface CommandContext {
  readonly source: Source;
  /** Argument of the command. The parser has checked that it is present. */
  readonly argument: string;
  readonly flags: Flags;
  readonly style: OutputStyle;
  readonly cli: ObserveCliContext;
  readonly print: (lines: readonly string[]) => void;
  /** Prints the received JSON on one line. */
  readonly printJson: (text: string) => void;
  /** Prints a note on stderr. */
  readonly printNote: (text: string) => void;
}

export type CommandHandler = (context: CommandContext) => Promise<void>;
