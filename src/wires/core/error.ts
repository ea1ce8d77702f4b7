import { HttpError, type HttpErrorOptions } from '../../http/error.ts';
import { errorTypes } from './error-types.ts';

/** Error types of the gateway's wires. */
export type WireErrorType =
  | 'invalid_request_error'
  | 'insufficient_allowance'
  | 'cost_ceiling_exceeded'
  | 'key_spend_cap_exceeded'
  | 'upstream_error'
  | 'rate_limit_error'
  | 'server_error';

export interface WireErrorOptions extends HttpErrorOptions {
  readonly code?: string;
  /** Additional members of the error object. */
  readonly extraMembers?: Readonly<Record<string, unknown>>;
}

/**
 * An error that a gateway caller receives. The message is in complete sentences: what is wrong and what to do. It never
 * contains a secret.
 */
export class WireError extends HttpError {
  readonly type: WireErrorType;
  readonly extraMembers: WireErrorOptions['extraMembers'];

  constructor(
    status: number,
    type: WireErrorType,
    message: string,
    { code, extraMembers, ...options }: WireErrorOptions = {},
  ) {
    super(status, code, message, options);
    this.name = 'WireError';
    this.type = type;
    this.extraMembers = extraMembers;
  }

  /** The error object of every wire, in bodies and in streams. OpenAI's clients require all four members. */
  get body(): Record<string, unknown> {
    return {
      message: this.message,
      type: this.type,
      param: this.param ?? null,
      code: this.code ?? null,
      ...(this.violations ? { violations: this.violations } : {}),
      ...this.extraMembers,
    };
  }
}

/** The error object of OpenAI's wires, in bodies and in streams. Clients require all four members. */
export function errorObject(error: HttpError): Readonly<Record<string, unknown>> {
  if (error instanceof WireError) return error.body;
  const { status, code, message, param, violations } = error;
  return {
    message,
    type: errorTypes(status).openai,
    param: param ?? null,
    code: code ?? null,
    ...(violations ? { violations } : {}),
  };
}

export const invalidRequest = (message: string, options: WireErrorOptions = {}): WireError =>
  new WireError(400, 'invalid_request_error', message, options);

/** An error for a request that needs a capability the model lacks. @param param the request member */
export const unsupported = (param: string, message: string): WireError =>
  invalidRequest(message, { code: 'unsupported_parameter', param });
