import { expect } from 'vitest';
import type { Actor, HostClient } from './host-client.ts';
import { pause } from './process.ts';

interface External {
  readonly headers: { readonly 'x-svc-session-secret': string };
  state: 'open' | 'ending' | 'ended';
}

/** Registers sessions, beats for them, ends them; some it leaves open. */
export class ExternalActor implements Actor {
  readonly #client: HostClient;
  readonly #sessions = new Map<string, External>();
  #count = 0;

  constructor(client: HostClient) {
    this.#client = client;
  }

  readonly acts = [() => this.#session()];

  async check(): Promise<void> {
    for (const [id, session] of this.#sessions) await this.#checkOne(id, session);
    this.#sessions.clear();
  }

  async #session(): Promise<void> {
    const made = await this.#client.ask('POST', '/agent/v1/sessions', { harness: 'killed' });
    if (made.status === 429) return await pause(100);
    expect(made.status, this.#client.about).toBe(201);
    const { id, secret } = JSON.parse(made.text) as { id: string; secret: string };
    const session: External = { headers: { 'x-svc-session-secret': secret }, state: 'open' };
    this.#sessions.set(this.#client.once(id), session);
    await this.#ask(id, 'heartbeat', { status: 'waiting', last_event: 'there' }, session);
    if (this.#count++ % 4 === 0) return;
    session.state = 'ending';
    const ended = await this.#ask(id, 'end', { outcome: 'completed', summary: 'done' }, session);
    if (ended === 200) session.state = 'ended';
  }

  /** An end is the whole of it: out of the feed, with a receipt. */
  async #checkOne(id: string, session: External): Promise<void> {
    const { status } = await this.#client.ask('GET', `/agent/v1/sessions/${id}/receipt`);
    const message = `${id}, which is ${session.state} (${this.#client.about})`;
    if (session.state !== 'ending') expect(status, message).toBe(session.state === 'ended' ? 200 : 404);
    const beat = await this.#ask(id, 'heartbeat', {}, session);
    expect(beat, message).toBe(status === 200 ? 404 : 200);
    // So that they do not become too many.
    if (beat === 200) expect(await this.#ask(id, 'end', { outcome: 'cancelled' }, session)).toBe(200);
  }

  async #ask(id: string, verb: string, body: object, { headers }: External): Promise<number> {
    return (await this.#client.ask('POST', `/agent/v1/sessions/${id}/${verb}`, body, headers)).status;
  }
}
