/**
 * Runs a program with our input and output and passes our signals on to it.
 * @param options `ownSession`: it gets every signal exactly once, and learns of our death (`endWithLauncher`). `hold`: what it
 * writes is printed when it has ended, for two programs beside each other. A crash is a line on stderr
 * @returns its exit code, or 128 and the signal's number as a shell says it
 */
export function runInForeground(
  command: string,
  args: readonly string[],
  options?: { ownSession?: boolean; hold?: boolean; cwd?: string | undefined },
): Promise<number>;

/** Bytes of address space that this process may have (`ulimit -v`); undefined where there is no limit, or none is known. */
export function addressSpaceLimit(path?: string): number | undefined;

/** What to say where something failed under this limit, half a sentence. */
export function limitNote(bytes: number): string;

/** Ends this process in order (SIGTERM to itself) when the process that ran it in the foreground dies. */
export function endWithLauncher(): void;
