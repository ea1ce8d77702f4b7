import type { Violation } from './types.ts';

export interface LatheOptions {
  /** Base URL of the host; default `http://127.0.0.1:8080`. */
  readonly url?: string;
  /** Bearer token: of the host, or of a peer. */
  readonly token?: string;
  /** In place of the global `fetch`. */
  readonly fetch?: typeof fetch;
}

/** The host refused a request, or it cannot be reached. */
export class LatheError extends Error {
  /** The host's error code, `unreachable`, or `not_a_host`. */
  readonly code: string;
  /** HTTP status; undefined when no response came. */
  readonly status: number | undefined;
  readonly violations: readonly Violation[];

  constructor(
    code: string,
    message: string,
    {
      status,
      violations = [],
      cause,
    }: { status?: number; violations?: readonly Violation[]; cause?: unknown } = {},
  ) {
    super(message, { cause });
    this.name = 'LatheError';
    this.code = code;
    this.status = status;
    this.violations = violations;
  }

  /** Whether the same request may succeed later. */
  get isTransient(): boolean {
    return this.status === undefined || this.status === 429 || this.status >= 500;
  }
}

export interface SendOptions {
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal | undefined;
}

export class Transport {
  readonly #url: string;
  readonly #token: string | undefined;
  readonly #fetch: typeof fetch;

  constructor({ url = 'http://127.0.0.1:8080', token, fetch: ownFetch }: LatheOptions) {
    this.#url = url.replace(/\/+$/, '');
    this.#token = token;
    this.#fetch = ownFetch ?? ((input, init) => fetch(input, init));
  }

  /** @throws LatheError; the signal's reason */
  async send(
    method: string,
    path: string,
    { body, headers = {}, signal }: SendOptions = {},
  ): Promise<Response> {
    let response: Response;
    try {
      response = await this.#fetch(`${this.#url}/agent/v1${path}`, {
        method,
        headers: {
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...(this.#token === undefined ? {} : { authorization: `Bearer ${this.#token}` }),
          ...headers,
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        ...(signal ? { signal } : {}),
      });
    } catch (cause) {
      signal?.throwIfAborted();
      throw new LatheError('unreachable', `the host at ${this.#url} cannot be reached`, { cause });
    }
    if (response.ok) return response;
    throw await this.#toError(response);
  }

  async json<Body>(method: string, path: string, options?: SendOptions): Promise<Body> {
    const response = await this.send(method, path, options);
    return (await response.json()) as Body;
  }

  async #toError(response: Response): Promise<LatheError> {
    const { status } = response;
    const text = await response.text().catch(() => '');
    const error = errorOf(text);
    if (!error)
      return new LatheError(
        'not_a_host',
        `the server at ${this.#url} is not a lathe host (status ${status})`,
        { status },
      );
    const { code, message, violations } = error;
    return new LatheError(code, message, { status, violations });
  }
}

/** The error of a body, or of the last line of a stream. */
export function errorOf(
  text: string,
):
  | { readonly code: string; readonly message: string; readonly violations: readonly Violation[] }
  | undefined {
  try {
    const { error } = JSON.parse(text) as {
      error?: { code?: unknown; message?: unknown; violations?: unknown };
    };
    if (!error || typeof error.message !== 'string') return undefined;
    return {
      code: typeof error.code === 'string' ? error.code : 'error',
      message: error.message,
      violations: Array.isArray(error.violations) ? (error.violations as Violation[]) : [],
    };
  } catch {
    return undefined;
  }
}
