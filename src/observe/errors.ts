export interface ObserveViolation {
  /** Path such as `where[0].value`. */
  readonly path: string;
  readonly message: string;
}

export type ObserveErrorKind = 'invalid' | 'not_found' | 'over_budget' | 'unavailable';

/** The observe plane refuses a request: `invalid` 400, `not_found` 404, `over_budget` 422, `unavailable` 503. */
export class ObserveError extends Error {
  readonly kind: ObserveErrorKind;
  /** Stable code in snake_case. */
  readonly code: string;
  readonly violations: readonly ObserveViolation[];

  constructor(
    kind: ObserveErrorKind,
    code: string,
    message: string,
    { violations = [], cause }: { violations?: readonly ObserveViolation[]; cause?: unknown } = {},
  ) {
    super(message, cause === undefined ? {} : { cause });
    this.name = 'ObserveError';
    this.kind = kind;
    this.code = code;
    this.violations = violations;
  }
}
