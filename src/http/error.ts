export interface Violation {
  /** Dotted path of the member, `messages.0.content`; empty for the body itself. */
  readonly path: string;
  readonly message: string;
}

export interface HttpErrorOptions extends ErrorOptions {
  /** The request member that the error is about. */
  readonly param?: string;
  /** Every violation of the body, where there is more than one. */
  readonly violations?: readonly Violation[];
  readonly headers?: Readonly<Record<string, string>>;
  /** The prompt's tokens, as far as they were counted, and those of the context that it does not fit. */
  readonly exceeded?: ExceededContext;
}

export interface ExceededContext {
  readonly promptTokens: number;
  readonly contextLength: number;
}

/** A refusal that a handler throws. Each wire and plane writes it in its own envelope. */
export class HttpError extends Error {
  readonly status: number;
  /** Stable snake_case code. Undefined only on the gateway, where the error type is sufficient. */
  readonly code: string | undefined;
  readonly param: string | undefined;
  readonly violations: readonly Violation[] | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly exceeded: ExceededContext | undefined;

  constructor(
    status: number,
    code: string | undefined,
    message: string,
    { param, violations, headers = {}, exceeded, ...options }: HttpErrorOptions = {},
  ) {
    super(message, options);
    this.name = 'HttpError';
    this.status = status;
    this.code = code;
    this.param = param;
    this.violations = violations;
    this.headers = headers;
    this.exceeded = exceeded;
  }
}

/** The client disconnected; nobody reads the response. */
export class ClientGone extends Error {
  constructor(message = 'the client closed the connection', options?: ErrorOptions) {
    super(message, options);
    this.name = 'ClientGone';
  }
}

/**
 * Writes a refusal in the error format of a plane. Some formats include the request id; Ollama's depends on the path.
 */
export type Envelope = (problem: HttpError, requestId?: string, path?: string) => unknown;

/** The native planes' envelope. */
export const hostEnvelope: Envelope = ({ code, message, violations }) => ({
  error: { code, message, ...(violations ? { violations } : {}) },
});

export function errorResponse(
  error: HttpError,
  envelope: Envelope,
  requestId: string,
  path?: string,
): Response {
  const { status, headers } = error;
  const idHeaders = {
    'x-request-id': requestId,
    'request-id': requestId,
    'x-content-type-options': 'nosniff',
  };
  return Response.json(envelope(error, requestId, path), { status, headers: { ...headers, ...idHeaders } });
}
