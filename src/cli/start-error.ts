import { systemCode } from '../util/system-code.ts';

/** Why the host cannot start or go on, with what to do: one line on stderr, exit code 1. */
export class StartError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'StartError';
  }
}

/** Whether a failure looks like address space that ran out: of a driver, a library or an array. */
export const mayLackAddressSpace = (error: unknown): boolean =>
  ['no_adapter', 'ERR_DLOPEN_FAILED', 'ENOMEM'].includes(systemCode(error) ?? '') ||
  (error instanceof RangeError && /allocation failed/i.test(error.message));
