import { systemCode } from '../util/system-code.ts';

/**
 * The host cannot start or continue. The message says why and what to do; it is printed as one line, with exit code 1.
 */
export class StartError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'StartError';
  }
}

/** Whether a failure may be caused by a limit on address space: of a driver, a library or an array. */
export const mayLackAddressSpace = (error: unknown): boolean =>
  ['no_adapter', 'ERR_DLOPEN_FAILED', 'ENOMEM'].includes(systemCode(error) ?? '') ||
  (error instanceof RangeError && /allocation failed/i.test(error.message));
