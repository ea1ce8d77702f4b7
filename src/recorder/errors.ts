export interface RecorderViolation {
  readonly path: string;
  readonly message: string;
}

export type RecorderErrorKind =
  | 'invalid'
  | 'unauthorized'
  | 'forbidden'
  | 'not_found'
  | 'conflict'
  | 'too_many'
  | 'unavailable';

/** The recorder refuses a request. By kind: 400, 401, 403, 404, 409, 429 (with `Retry-After: 1`), 503. */
export class RecorderError extends Error {
  readonly kind: RecorderErrorKind;
  /** Stable code in snake_case. */
  readonly code: string;
  readonly violations: readonly RecorderViolation[];

  constructor(
    kind: RecorderErrorKind,
    code: string,
    message: string,
    { violations = [], cause }: { violations?: readonly RecorderViolation[]; cause?: unknown } = {},
  ) {
    super(message, cause === undefined ? {} : { cause });
    this.name = 'RecorderError';
    this.kind = kind;
    this.code = code;
    this.violations = violations;
  }
}
