import type { Terminal } from '../terminal/terminal.ts';

/** What the tool gets from the process; only `observe.ts` makes the real one. */
export interface ObserveWorld {
  /** Without the program's own name. */
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly home: string;
  /** Where `package.json` lies. */
  readonly packageRoot: string;
  readonly stdin: AsyncIterable<Buffer | string>;
  readonly stdout: Terminal;
  readonly stderr: Terminal;
  /** Aborts when somebody ends the tool, or nobody reads stdout any more. */
  readonly over: AbortSignal;
  /** The path of another entry of the program: of a thread. */
  readonly entry: (name: 'observe-worker') => string;
}
