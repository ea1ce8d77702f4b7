interface Violation {
  /** Dotted path of the member. */
  readonly path: string;
  readonly message: string;
}

/** The host is unreachable, or it rejected a request. Exit code 3. */
export class HostError extends Error {
  /** `unreachable`, `not_a_host`, or the error code of the host. */
  readonly code: string;
  readonly status: number | undefined;
  readonly violations: readonly Violation[];

  constructor(code: string, message: string, status?: number, violations: readonly Violation[] = []) {
    super(message);
    this.name = 'HostError';
    this.code = code;
    this.status = status;
    this.violations = violations;
  }

  /** Whether the same request can succeed later. */
  get isTransient(): boolean {
    return this.code === 'unreachable' || this.code === 'not_a_host' || this.status === 503;
  }
}
