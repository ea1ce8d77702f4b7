import type { ChatFailure, RequestViolation } from './types.ts';

/** Why no model was loaded, or a request failed. `message` is for users and says what to do. */
export class ChatError extends Error {
  readonly code: ChatFailure;
  /** All violations of an `invalid_request`. */
  readonly violations: readonly RequestViolation[];

  constructor(code: ChatFailure, message: string, violations: readonly RequestViolation[] = []) {
    super(message);
    this.name = 'ChatError';
    this.code = code;
    this.violations = violations;
  }
}

/** A ChatError as a plain object: some browsers transfer only the message of an error from a worker. */
export interface ChatErrorData {
  readonly code: ChatFailure;
  readonly message: string;
  readonly violations?: readonly RequestViolation[];
}

export const toErrorData = ({ code, message, violations }: ChatError): ChatErrorData => ({
  code,
  message,
  violations,
});

export const fromErrorData = ({ code, message, violations }: ChatErrorData): ChatError =>
  new ChatError(code, message, violations);

/** @param violations at least one */
export const invalidRequest = (violations: readonly RequestViolation[]): ChatError =>
  new ChatError(
    'invalid_request',
    violations.map(({ path, message }) => (path === '' ? message : `${path}: ${message}`)).join('; '),
    violations,
  );
