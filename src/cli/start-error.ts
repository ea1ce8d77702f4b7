/** Why the host cannot start or go on, with what to do: one line on stderr, exit code 1. */
export class StartError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'StartError';
  }
}

/** What the system says of a failed call (`EACCES` and the like). */
export const systemCode = (error: unknown): string | undefined =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;

/** Whether a failure looks like address space that ran out: of a driver, a library or an array. */
export const mayLackAddressSpace = (error: unknown): boolean =>
  ['no_adapter', 'ERR_DLOPEN_FAILED', 'ENOMEM'].includes(systemCode(error) ?? '') ||
  (error instanceof RangeError && /allocation failed/i.test(error.message));
