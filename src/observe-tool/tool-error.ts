import { UsageError } from '../config/usage.ts';
import { HostError } from '../host-client/errors.ts';
import { ObserveError, type ObserveViolation } from '../observe/errors.ts';
import { FileError } from '../terminal/file-error.ts';
import { errorMessage } from '../util/error-message.ts';
import type { Flags } from './arguments.ts';
import { describeViolation } from './query-flags.ts';

/** An error as text for people and as a JSON document for programs. */
export interface ToolError {
  readonly lines: readonly string[];
  readonly document: {
    readonly code: string;
    readonly message: string;
    readonly violations?: readonly ObserveViolation[];
  };
  /** Whether the command line is wrong. */
  readonly isUsage: boolean;
}

/** Error codes of the observe plane that mean wrong usage. */
const usageCodes = ['invalid_query', 'unknown_surface', 'unknown_question'];

export function toToolError(error: unknown, flags: Flags): ToolError {
  if (error instanceof UsageError || error instanceof FileError) {
    const lines = error instanceof UsageError ? error.faults : [error.message];
    return { lines, document: { code: 'usage', message: error.message }, isUsage: true };
  }
  const message = errorMessage(error);
  if (!(error instanceof HostError || error instanceof ObserveError))
    return { lines: [message], document: { code: 'failed', message }, isUsage: false };
  const { code, violations } = error;
  return {
    lines:
      violations.length > 0 ? violations.map((violation) => describeViolation(violation, flags)) : [message],
    document: { code, message, ...(violations.length > 0 ? { violations } : {}) },
    isUsage: usageCodes.includes(code),
  };
}
