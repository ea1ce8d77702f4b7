import { expect } from 'vitest';
import type { Store } from '../../../src/store/index.ts';

/** The host is gone: what was asked last may have been done, or not. */
export class Gone extends Error {}

function gone(error: unknown): never {
  throw new Gone('the host is gone', { cause: error });
}

export interface Answer {
  readonly status: number;
  readonly text: string;
}

/** Something that acts on a host until that is killed, and then holds the next one to what was answered. */
export interface Actor {
  /** Each is done again and again, all at once. */
  readonly acts: readonly (() => Promise<void>)[];
  /** On a host that is quiet. */
  check(): Promise<void>;
  /** The same of what only the database tells. */
  checkStored?(store: Store): Promise<void>;
}

/** A host that is one process after the other. */
export class HostClient {
  /** URL of the current process. */
  url = '';
  /** Its control socket. */
  control = '';
  /** The header that an operator sends. */
  operator: Readonly<Record<string, string>> = {};
  /** In every message: which kill it was. */
  about = '';
  acknowledged = 0;
  /** Everything that was given out once. */
  readonly #ids = new Set<string>();

  async ask(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<Answer> {
    const response = await this.open(method, path, body, headers);
    const answer = { status: response.status, text: await response.text().catch(gone) };
    // A refusal is an answer; a fault is not.
    expect(answer.status, `${method} ${path}: ${answer.text} (${this.about})`).toBeLessThan(500);
    if (answer.status < 300 && method !== 'GET') this.acknowledged++;
    return answer;
  }

  /** The answer while it comes. */
  async open(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<Response> {
    const isText = typeof body === 'string';
    const type = { 'content-type': isText ? 'text/plain' : 'application/json' };
    return await fetch(path.startsWith('/') ? this.url + path : path, {
      method,
      headers: { ...(body === undefined ? {} : type), ...headers },
      ...(body === undefined ? {} : { body: isText ? body : JSON.stringify(body) }),
    }).catch(gone);
  }

  async json(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<Record<string, unknown>> {
    const { status, text } = await this.ask(method, path, body, headers);
    expect(status, `${method} ${path}: ${text} (${this.about})`).toBeLessThan(300);
    return JSON.parse(text) as Record<string, unknown>;
  }

  /** The whole lines of an answer, until it ends or the host is gone. */
  async *lines(response: Response): AsyncGenerator<string> {
    let rest = '';
    const decoder = new TextDecoder();
    const reader = response.body?.getReader();
    for (;;) {
      const { done, value } = (await reader?.read().catch(gone)) ?? { done: true };
      if (done) return;
      const parts = (rest + decoder.decode(value, { stream: true })).split('\n');
      rest = parts.pop() ?? '';
      yield* parts;
    }
  }

  /** An id that must be new. */
  once(id: unknown): string {
    expect(this.#ids.has(String(id)), `${String(id)} was given out before (${this.about})`).toBe(false);
    this.#ids.add(String(id));
    return String(id);
  }
}
