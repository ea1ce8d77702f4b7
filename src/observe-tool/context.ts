import type { Look } from '../terminal/style.ts';
import type { Flags } from './arguments.ts';
import type { Source } from './source.ts';
import type { ObserveWorld } from './world.ts';

/** What a command works with. */
export interface Context {
  readonly source: Source;
  /** What stands behind the command; the parser has seen that it is there. */
  readonly word: string;
  readonly flags: Flags;
  readonly look: Look;
  readonly world: ObserveWorld;
  readonly print: (lines: readonly string[]) => void;
  /** JSON as it came, on a line. */
  readonly printJson: (text: string) => void;
  /** Beside the answer, on stderr. */
  readonly note: (text: string) => void;
}

export type Run = (context: Context) => Promise<void>;
