import { UsageError } from '../config/usage.ts';
import { HostError } from '../host-client/errors.ts';
import { ObserveError, type ObserveViolation } from '../observe/errors.ts';
import { FileError } from '../terminal/file-error.ts';
import { errorMessage } from '../util/error-message.ts';
import type { Flags } from './arguments.ts';
import { inFlags } from './query-flags.ts';

/** What went wrong, for people and for programs. */
export interface Fault {
  readonly lines: readonly string[];
  readonly document: {
    readonly code: string;
    readonly message: string;
    readonly violations?: readonly ObserveViolation[];
  };
  /** Whoever typed it can put it right. */
  readonly isUsage: boolean;
}

/** The plane's refusals of what was typed. */
const usageCodes = ['invalid_query', 'unknown_surface', 'unknown_question'];

export function faultOf(error: unknown, flags: Flags): Fault {
  if (error instanceof UsageError || error instanceof FileError) {
    const lines = error instanceof UsageError ? error.faults : [error.message];
    return { lines, document: { code: 'usage', message: error.message }, isUsage: true };
  }
  const message = errorMessage(error);
  if (!(error instanceof HostError || error instanceof ObserveError))
    return { lines: [message], document: { code: 'failed', message }, isUsage: false };
  const { code, violations } = error;
  return {
    lines: violations.length > 0 ? violations.map((violation) => inFlags(violation, flags)) : [message],
    document: { code, message, ...(violations.length > 0 ? { violations } : {}) },
    isUsage: usageCodes.includes(code),
  };
}
