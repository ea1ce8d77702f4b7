import { request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import { errorMessage } from '../util/error-message.ts';
import { systemCode } from '../util/system-code.ts';
import { HostError } from './errors.ts';

export interface HostAddress {
  /** Base URL without a trailing slash. */
  readonly url: string;
  readonly token?: string | undefined;
}

/** Advice that a tool adds to error messages. */
export interface HostHints {
  /** For 401 and 403. */
  readonly token: string;
  /** When the connection is refused. */
  readonly start: string;
  /** What should listen there, for messages. Default: `lathe host`. */
  readonly server?: string;
  /** Message for a 503. */
  readonly unavailable: (code: string, message: string) => string;
}

export interface HostRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  readonly path: string;
  readonly body?: unknown;
  readonly signal?: AbortSignal | undefined;
  /** Whether to apply the response timeout. Default: true for GET and DELETE. A gate or bench has no timeout. */
  readonly hasTimeout?: boolean;
}

/** Response timeout. */
const responseTimeoutMs = 30_000;

/**
 * Sends one request to the host and returns the response text. Does not use `fetch`, which times out on responses that
 * take minutes. Throws `HostError`, or the abort reason of the signal.
 */
export async function sendRequest(
  host: HostAddress,
  hints: HostHints,
  hostRequest: HostRequest,
): Promise<string> {
  const { status, type, text } = await performRequest(host, hints, hostRequest);
  if (status >= 200 && status < 300 && type.includes('json')) return text;
  const errorBody = type.includes('json') ? parseErrorBody(text) : undefined;
  if (errorBody === undefined) {
    const what = status < 300 || status >= 400 ? type.split(';')[0] || 'no content type' : 'a redirect';
    throw new HostError(
      'not_a_host',
      `the server at ${host.url} is not a ${hints.server ?? 'lathe host'}: ${hostRequest.method} ${hostRequest.path} returned ${status} (${what})`,
      status,
    );
  }
  throw new HostError(
    errorBody.code,
    errorMessageFor(status, errorBody, hints),
    status,
    errorBody.violations,
  );
}

function performRequest({ url, token }: HostAddress, hints: HostHints, hostRequest: HostRequest) {
  const { method, path, body, signal, hasTimeout = method === 'GET' || method === 'DELETE' } = hostRequest;
  const text = body === undefined ? undefined : JSON.stringify(body);
  const requestFunction = url.startsWith('https:') ? requestHttps : requestHttp;
  return new Promise<{ status: number; type: string; text: string }>((resolve, reject) => {
    const fail = (error: unknown) => {
      if (signal?.aborted) reject(signal.reason as Error);
      else reject(new HostError('unreachable', unreachableMessage(url, error, hints)));
    };
    const outgoing = requestFunction(
      url + path,
      {
        method,
        ...(signal === undefined ? {} : { signal }),
        headers: {
          accept: 'application/json',
          ...(text === undefined
            ? {}
            : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }),
          ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        },
      },
      (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', fail);
        response.on('end', () =>
          resolve({
            status: response.statusCode ?? 0,
            type: response.headers['content-type'] ?? '',
            text: Buffer.concat(chunks).toString('utf8'),
          }),
        );
      },
    );
    outgoing.on('error', fail);
    if (hasTimeout)
      outgoing.setTimeout(responseTimeoutMs, () =>
        outgoing.destroy(new Error('it did not answer within 30 s')),
      );
    outgoing.end(text);
  });
}

interface ErrorBody {
  readonly code: string;
  readonly message: string;
  readonly violations: readonly { path: string; message: string }[];
}

/** Parses the error body `{error: {code, message, violations?}}`; undefined for other texts. */
function parseErrorBody(text: string): ErrorBody | undefined {
  try {
    const { error } = JSON.parse(text) as { error?: Partial<ErrorBody> };
    if (typeof error?.message !== 'string') return undefined;
    const { code = 'refused', message, violations } = error;
    return { code, message, violations: Array.isArray(violations) ? violations : [] };
  } catch {
    return undefined;
  }
}

function errorMessageFor(
  status: number,
  { code, message }: ErrorBody,
  { token, unavailable }: HostHints,
): string {
  if (status === 401 || status === 403) return `${message} (${token})`;
  return status === 503 ? unavailable(code, message) : message;
}

function unreachableMessage(url: string, error: unknown, { start }: HostHints): string {
  const code = systemCode(error);
  if (code === 'ECONNREFUSED') return `no host is listening at ${url}; ${start}`;
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN')
    return `the host name of ${url} cannot be resolved; ${start}`;
  if (code === 'ECONNRESET' || code === 'EPIPE') return `the host at ${url} closed the connection`;
  return `the host at ${url} cannot be reached: ${errorMessage(error)}`;
}
