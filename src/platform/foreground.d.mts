/**
 * Runs a program with our input and output and passes our signals on to it.
 * @param options `ownSession`: it gets every signal exactly once, and learns of our death (`endWithLauncher`). `hold`: what it
 * writes is printed when it has ended, for two programs beside each other
 * @returns its exit code, or 128 and the signal's number as a shell says it
 */
export function runInForeground(
  command: string,
  args: readonly string[],
  options?: { ownSession?: boolean; hold?: boolean },
): Promise<number>;

/** Ends this process in order (SIGTERM to itself) when the process that ran it in the foreground dies. */
export function endWithLauncher(): void;
