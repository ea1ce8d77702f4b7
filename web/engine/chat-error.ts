import type { ChatFailure, RequestViolation } from './types.ts';

/** Why there is no chat, or no answer. `message` is for people and says what to do. */
export class ChatError extends Error {
  readonly code: ChatFailure;
  /** Of `invalid_request`: all that is wrong with it. */
  readonly violations: readonly RequestViolation[];

  constructor(code: ChatFailure, message: string, violations: readonly RequestViolation[] = []) {
    super(message);
    this.name = 'ChatError';
    this.code = code;
    this.violations = violations;
  }
}

/** An error on its way from the worker: not every browser carries more of one than its message. */
export interface Failure {
  readonly code: ChatFailure;
  readonly message: string;
  readonly violations?: readonly RequestViolation[];
}

export const asFailure = ({ code, message, violations }: ChatError): Failure => ({
  code,
  message,
  violations,
});

export const asChatError = ({ code, message, violations }: Failure): ChatError =>
  new ChatError(code, message, violations);

/** @param violations at least one */
export const invalid = (violations: readonly RequestViolation[]): ChatError =>
  new ChatError(
    'invalid_request',
    violations.map(({ path, message }) => (path === '' ? message : `${path}: ${message}`)).join('; '),
    violations,
  );
