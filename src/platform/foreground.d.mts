/**
 * Runs a program with the stdio of this process and forwards signals to it. Prints a line on stderr if it crashes.
 * @param options `ownSession`: the program gets every signal exactly once, and notices when this process dies
 * (`endWithLauncher`). `hold`: print its output after it ended, for programs that run in parallel
 * @returns its exit code, or 128 plus the signal number, as shells report it
 */
export function runInForeground(
  command: string,
  args: readonly string[],
  options?: { ownSession?: boolean; hold?: boolean; cwd?: string | undefined },
): Promise<number>;

/** Limit of this process's address space in bytes (`ulimit -v`); undefined if there is none or it is unknown. */
export function addressSpaceLimit(path?: string): number | undefined;

/** Part of a sentence that explains a failure under this limit. */
export function limitNote(bytes: number): string;

/** Sends SIGTERM to this process when the process that ran it in the foreground dies. */
export function endWithLauncher(): void;
