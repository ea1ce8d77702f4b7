import { request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import { errorMessage } from '../util/error-message.ts';
import { systemCode } from '../util/system-code.ts';
import { HostError } from './errors.ts';

export interface HostAddress {
  /** Without a slash at its end. */
  readonly url: string;
  readonly token?: string | undefined;
}

/** What a tool adds to a refusal: how to do better. */
export interface HostHints {
  /** After a 401 or 403. */
  readonly token: string;
  /** Where nobody listens. */
  readonly start: string;
  /** What a 503 means there. */
  readonly unavailable: (code: string, message: string) => string;
}

export interface Exchange {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly path: string;
  readonly body?: unknown;
  readonly signal?: AbortSignal | undefined;
  /** It answers at once, as GET and DELETE always do; a gate or a bench may take as long as it needs. */
  readonly prompt?: boolean;
}

/** For what answers at once. */
const promptMs = 30_000;

/**
 * Asks the host once and answers with the text of a success. Not `fetch`: that gives up on answers that take minutes.
 * Throws `HostError`; the signal's reason when it aborts.
 */
export async function exchange(host: HostAddress, hints: HostHints, asked: Exchange): Promise<string> {
  const { status, type, text } = await send(host, hints, asked);
  if (status >= 200 && status < 300 && type.includes('json')) return text;
  const refusal = type.includes('json') ? readRefusal(text) : undefined;
  if (refusal === undefined) {
    const what = status < 300 || status >= 400 ? type.split(';')[0] || 'no content type' : 'a redirect';
    throw new HostError(
      'not_a_host',
      `what answers at ${host.url} is no lathe host: ${asked.method} ${asked.path} gave ${status} (${what})`,
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

/** The host's envelope `{error: {code, message, violations?}}`, or nothing when it is something else. */
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
  if (code === 'ECONNREFUSED') return `no host listens at ${url}; ${start}`;
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') return `there is no such machine: ${url}; ${start}`;
  if (code === 'ECONNRESET' || code === 'EPIPE') return `the host at ${url} closed the connection`;
  return `the host at ${url} cannot be reached: ${errorMessage(error)}`;
}
