/** Types of errors on the wire. */
export type GatewayErrorType =
  | 'invalid_request_error'
  | 'insufficient_allowance'
  | 'cost_ceiling_exceeded'
  | 'key_spend_cap_exceeded'
  | 'upstream_error'
  | 'rate_limit_error'
  | 'server_error';

export interface GatewayErrorOptions extends ErrorOptions {
  readonly code?: string;
  /** The member of the request that it is about. */
  readonly param?: string;
  /** All that is wrong with a body, when it is more than one thing. */
  readonly violations?: readonly { readonly path: string; readonly message: string }[];
  /** Further members of the error object. */
  readonly more?: Readonly<Record<string, unknown>>;
  readonly headers?: Readonly<Record<string, string>>;
}

/** What the caller is told. The message is whole sentences: what is wrong and what to do. Never holds a secret. */
export class GatewayError extends Error {
  readonly status: number;
  readonly type: GatewayErrorType;
  readonly code: string | undefined;
  readonly param: string | undefined;
  readonly violations: GatewayErrorOptions['violations'];
  readonly more: GatewayErrorOptions['more'];
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    status: number,
    type: GatewayErrorType,
    message: string,
    { code, param, violations, more, headers = {}, ...options }: GatewayErrorOptions = {},
  ) {
    super(message, options);
    this.name = 'GatewayError';
    this.status = status;
    this.type = type;
    this.code = code;
    this.param = param;
    this.violations = violations;
    this.more = more;
    this.headers = headers;
  }

  /** The error object of every wire, buffered and in-band: OpenAI's clients want all four members present. */
  get body(): Record<string, unknown> {
    return {
      message: this.message,
      type: this.type,
      param: this.param ?? null,
      code: this.code ?? null,
      ...(this.violations ? { violations: this.violations } : {}),
      ...this.more,
    };
  }
}

export const invalidRequest = (message: string, options: GatewayErrorOptions = {}): GatewayError =>
  new GatewayError(400, 'invalid_request_error', message, options);

/** The model lacks what the request asks for. @param param the member of the request */
export const unsupported = (param: string, message: string): GatewayError =>
  invalidRequest(message, { code: 'unsupported_parameter', param });

/** Every failure to say who asks: always the same, whatever failed. */
export const invalidApiKey = (): GatewayError =>
  new GatewayError(
    401,
    'invalid_request_error',
    'No valid API key came with the request: send one as `Authorization: Bearer KEY`, `x-api-key: KEY` or `api-key: KEY`.',
    { code: 'invalid_api_key', headers: { 'www-authenticate': 'Bearer' } },
  );
