import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { expect } from 'vitest';
import type { Actor, HostClient } from './host-client.ts';
import { pause } from './process.ts';

type Decided = 'approving' | 'approved' | 'discarding' | 'discarded';

/** The states that a change may have. If its end was not observed, its file shows whether it was applied. */
const possible: Readonly<Record<Decided, readonly string[]>> = {
  approving: ['staged', 'applied'],
  approved: ['applied'],
  discarding: ['staged', 'discarded'],
  discarded: ['discarded'],
};

/** What the agents write into the file of a path: enough not to be written at once. */
export const contentOf = (path: string): string =>
  `${createHash('sha256').update(path).digest('hex')}\n`.repeat(2000);

/** Decides about what the agents want to write. */
export class ChangeActor implements Actor {
  readonly #client: HostClient;
  readonly #changes = new Map<string, Decided>();
  #count = 0;

  constructor(client: HostClient) {
    this.#client = client;
  }

  readonly acts = [() => this.#decide()];

  async check(): Promise<void> {
    for (const [id, decided] of this.#changes) await this.#checkOne(id, decided);
    this.#changes.clear();
  }

  async #decide(): Promise<void> {
    const { text } = await this.#client.ask('GET', '/agent/v1/pending');
    const staged = JSON.parse(text) as { id: string; tool: string }[];
    const next = staged.find(({ id, tool }) => tool === 'fs_write' && !this.#changes.has(id));
    if (!next) return await pause(10);
    const approve = this.#count++ % 2 === 0;
    this.#changes.set(next.id, approve ? 'approving' : 'discarding');
    const path = `/agent/v1/pending/${next.id}/${approve ? 'approve' : 'discard'}`;
    const { status } = await this.#client.ask('POST', path, approve ? undefined : { note: 'no' });
    expect(status, `${path} (${this.#client.about})`).toBe(200);
    this.#changes.set(next.id, approve ? 'approved' : 'discarded');
  }

  /** A decision and what it does are one: a file is there as a whole, or not at all. */
  async #checkOne(id: string, decided: Decided): Promise<void> {
    const change = await this.#client.json('GET', `/agent/v1/pending/${id}`);
    const { state, path } = change as { state: string; path: string };
    const message = `${id}, ${decided}, is ${state} (${this.#client.about})`;
    expect(possible[decided], message).toContain(state);
    const file = existsSync(path) ? readFileSync(path, 'utf8') : undefined;
    if (file !== undefined) expect(file === contentOf(path), `${path}: half a file (${message})`).toBe(true);
    expect(file !== undefined, message).toBe(state === 'applied');
  }
}
