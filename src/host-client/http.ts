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
  /** Message for a 503. */
  readonly unavailable: (code: string, message: string) => string;
}

export interface Exchange {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly path: string;
  readonly body?: unknown;
  readonly signal?: AbortSignal | undefined;
  /** Whether to apply the response timeout. Default: true for GET and DELETE. A gate or bench has no timeout. */
  readonly prompt?: boolean;
}

/** Response timeout. */
const promptMs = 30_000;

/**
 * Sends one request to the host and returns the response text. Does not use `fetch`, which times out on responses that
 * take minutes. Throws `HostError`, or the abort reason of the signal.
 */
export async function exchange(host: HostAddress, hints: HostHints, asked: Exchange): Promise<string> {
  const { status, type, text } = await send(host, hints, asked);
  if (status >= 200 && status < 300 && type.includes('json')) return text;
  const refusal = type.includes('json') ? readRefusal(text) : undefined;
  if (refusal === undefined) {
    const what = status < 300 || status >= 400 ? type.split(';')[0] || 'no content type' : 'a redirect';
    throw new HostError(
      'not_a_host',
      `the server at ${host.url} is not a lathe host: ${asked.method} ${asked.path} returned ${status} (${what})`,
      status,
    );
  }
  throw new HostError(refusal.code, explain(status, refusal, hints), status, refusal.violations);
}

function send({ url, token }: HostAddress, hints: HostHints, asked: Exchange) {
  const { method, path, body, signal, prompt = method === 'GET' || method === 'DELETE' } = asked;
  const text = body === undefined ? undefined : JSON.stringify(body);
  const request = url.startsWith('https:') ? requestHttps : requestHttp;
  return new Promise<{ status: number; type: string; text: string }>((resolve, reject) => {
    const fail = (error: unknown) => {
      if (signal?.aborted) reject(signal.reason as Error);
      else reject(new HostError('unreachable', unreachable(url, error, hints)));
    };
    const outgoing = request(
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
        const parts: Buffer[] = [];
        response.on('data', (part: Buffer) => parts.push(part));
        response.on('error', fail);
        response.on('end', () =>
          resolve({
            status: response.statusCode ?? 0,
            type: response.headers['content-type'] ?? '',
            text: Buffer.concat(parts).toString('utf8'),
          }),
        );
      },
    );
    outgoing.on('error', fail);
    if (prompt)
      outgoing.setTimeout(promptMs, () => outgoing.destroy(new Error('it did not answer within 30 s')));
    outgoing.end(text);
  });
}

interface Refusal {
  readonly code: string;
  readonly message: string;
  readonly violations: readonly { path: string; message: string }[];
}

/** Parses the error body `{error: {code, message, violations?}}`; undefined for other texts. */
function readRefusal(text: string): Refusal | undefined {
  try {
    const { error } = JSON.parse(text) as { error?: Partial<Refusal> };
    if (typeof error?.message !== 'string') return undefined;
    const { code = 'refused', message, violations } = error;
    return { code, message, violations: Array.isArray(violations) ? violations : [] };
  } catch {
    return undefined;
  }
}

function explain(status: number, { code, message }: Refusal, { token, unavailable }: HostHints): string {
  if (status === 401 || status === 403) return `${message} (${token})`;
  return status === 503 ? unavailable(code, message) : message;
}

function unreachable(url: string, error: unknown, { start }: HostHints): string {
  const code = systemCode(error);
  if (code === 'ECONNREFUSED') return `no host is listening at ${url}; ${start}`;
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN')
    return `the host name of ${url} cannot be resolved; ${start}`;
  if (code === 'ECONNRESET' || code === 'EPIPE') return `the host at ${url} closed the connection`;
  return `the host at ${url} cannot be reached: ${errorMessage(error)}`;
}
