export interface Fault {
  /** Dotted path of the member; empty for the whole value. */
  readonly path: string;
  readonly message: string;
}

/** Classes of refusals. The HTTP plane maps each of them to a status. */
export type AgentErrorKind =
  | 'invalid'
  | 'unauthorized'
  | 'not_found'
  | 'conflict'
  | 'gone'
  | 'too_many'
  | 'unavailable';

/** A refusal of the agent plane. `code` is stable snake_case; the message says what to do. */
export class AgentError extends Error {
  readonly kind: AgentErrorKind;
  readonly code: string;
  readonly faults: readonly Fault[] | undefined;
  /** The same may succeed when it is tried again. */
  readonly isPassing: boolean;
  /** How long the service that refused asks to wait. */
  readonly retryAfterMs: number | undefined;
  constructor(
    kind: AgentErrorKind,
    code: string,
    message: string,
    options: ErrorOptions & {
      faults?: readonly Fault[];
      isPassing?: boolean;
      retryAfterMs?: number | undefined;
    } = {},
  ) {
    super(message, options);
    this.name = 'AgentError';
    this.kind = kind;
    this.code = code;
    this.faults = options.faults;
    this.isPassing = options.isPassing ?? kind === 'too_many';
    this.retryAfterMs = options.retryAfterMs;
  }
}
