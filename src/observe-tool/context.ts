import type { Look } from '../terminal/style.ts';
import type { Flags } from './arguments.ts';
import type { Source } from './source.ts';
import type { ObserveWorld } from './world.ts';

/** Context of a command. */
export interface Context {
  readonly source: Source;
  /** Argument of the command. The parser has checked that it is present. */
  readonly word: string;
  readonly flags: Flags;
  readonly look: Look;
  readonly world: ObserveWorld;
  readonly print: (lines: readonly string[]) => void;
  /** Prints the received JSON on one line. */
  readonly printJson: (text: string) => void;
  /** Prints a note on stderr. */
  readonly note: (text: string) => void;
}

export type Run = (context: Context) => Promise<void>;
