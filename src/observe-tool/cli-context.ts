import type { Terminal } from '../terminal/terminal.ts';

/** What the tool gets from the process. Only `observe.ts` creates the real one; tests create their own. */
export interface ObserveCliContext {
  /** Arguments without the program name. */
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly home: string;
  /** Folder of `package.json`. */
  readonly packageRoot: string;
  readonly stdin: AsyncIterable<Buffer | string>;
  readonly stdout: Terminal;
  readonly stderr: Terminal;
  /** Aborted when the tool is interrupted or stdout is closed. */
  readonly stopping: AbortSignal;
  /** Path of a worker thread's entry file. */
  readonly entry: (name: 'observe-worker') => string;
}
