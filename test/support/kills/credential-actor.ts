import { expect } from 'vitest';
import type { Store } from '../../../src/store/index.ts';
import type { Actor, HostClient } from './host-client.ts';
import { pause } from './process.ts';

/** State of a peer: what was acknowledged, and what was requested and not answered. */
interface PeerState {
  certain: 'minted' | 'revoked' | undefined;
  requested?: 'minted' | 'revoked';
  token?: string;
}

interface Session {
  readonly id: string;
  readonly capability: string;
}

/** Takes credentials of tasks away, and mints and revokes those of peers. */
export class CredentialActor implements Actor {
  readonly #client: HostClient;
  /** To be revoked. */
  readonly #sessions: Session[] = [];
  readonly #revoked = new Set<string>();
  readonly #peers = new Map<string, PeerState>();
  #count = 0;

  constructor(client: HostClient) {
    this.#client = client;
  }

  readonly acts = [() => this.#revoke(), () => this.#peer()];

  async check(): Promise<void> {
    await this.#checkPeers();
    for (let tasks = 0; tasks < 3; tasks++) this.#sessions.push(await this.#task());
  }

  async #checkPeers(): Promise<void> {
    if (this.#peers.size === 0) return;
    const { peers } = await this.#client.json('GET', this.#roster, undefined, this.#client.operator);
    const found = new Map(
      (peers as { name: string; revoked: boolean }[]).map(
        ({ name, revoked }): [string, 'minted' | 'revoked'] => [name, revoked ? 'revoked' : 'minted'],
      ),
    );
    for (const [name, state] of this.#peers) await this.#checkPeer(name, state, found.get(name));
  }

  async checkStored(store: Store): Promise<void> {
    const rows = await store.read((db) =>
      db.selectFrom('store_sessions').select('id').where('revoked_at', 'is not', null).execute(),
    );
    const acts = await store.read((db) =>
      db
        .selectFrom('acts')
        .select('target')
        .where('verb', '=', 'revoke')
        .where('outcome', '=', 'applied')
        .execute(),
    );
    const revoked = new Set(rows.map(({ id }) => id));
    const journaled = new Set(acts.map(({ target }) => target));
    for (const id of this.#revoked) {
      expect(revoked.has(id), `${id} was revoked (${this.#client.about})`).toBe(true);
      expect(journaled.has(id), `the journal has no revoke of ${id} (${this.#client.about})`).toBe(true);
    }
    // One transaction: neither is there without the other.
    expect([...revoked].sort(), this.#client.about).toEqual([...journaled].sort());
  }

  async #revoke(): Promise<void> {
    const { id, capability } = this.#sessions.pop() ?? (await this.#task());
    const path = `/agent/v1/sessions/${id}/revoke`;
    const headers = this.#count++ % 2 === 0 ? { 'x-svc-session-secret': capability } : this.#client.operator;
    if (this.#count % 3 === 0) {
      const wrong = { 'x-svc-session-secret': `${capability}x` };
      const refused = await this.#client.ask('POST', path, undefined, wrong);
      expect(refused.status, this.#client.about).toBe(401);
    }
    const { status } = await this.#client.ask('POST', path, undefined, headers);
    expect(status, `${path} (${this.#client.about})`).toBe(200);
    this.#revoked.add(id);
    await pause(20);
  }

  /** The store session of a new task, which is at its end. */
  async #task(): Promise<Session> {
    const body = { agent: 'worker', prompt: 'Do what you may.' };
    const response = await this.#client.open('POST', '/agent/v1/tasks', body);
    expect(response.status, `a task (${this.#client.about})`).toBe(200);
    const id = response.headers.get('x-svc-session') ?? '';
    const capability = response.headers.get('x-svc-session-secret') ?? '';
    for await (const _ of this.#client.lines(response));
    return { id, capability };
  }

  async #peer(): Promise<void> {
    const name = `peer${this.#count++ % 4}`;
    const state: PeerState = this.#peers.get(name) ?? { certain: undefined };
    this.#peers.set(name, state);
    const { operator } = this.#client;
    if (state.certain === 'minted') {
      state.requested = 'revoked';
      const gone = await this.#client.ask('DELETE', `${this.#roster}/${name}`, undefined, operator);
      expect(gone.status, `revoke of ${name} (${this.#client.about})`).toBe(200);
    } else {
      state.requested = 'minted';
      delete state.token;
      const minted = await this.#client.ask('POST', this.#roster, { name }, operator);
      expect(minted.status, `mint of ${name} (${this.#client.about})`).toBe(201);
      state.token = this.#client.once((JSON.parse(minted.text) as { token: string }).token);
    }
    state.certain = state.requested;
    delete state.requested;
    // It is fast, and the others want their turn.
    await pause(50);
  }

  async #checkPeer(name: string, state: PeerState, found: 'minted' | 'revoked' | undefined): Promise<void> {
    const possible = state.requested === undefined ? [state.certain] : [state.certain, state.requested];
    expect(possible, `${name} (${this.#client.about})`).toContain(found);
    state.certain = found;
    delete state.requested;
    if (state.token === undefined) return;
    const headers = { authorization: `Bearer ${state.token}` };
    const { status } = await this.#client.ask('GET', '/host/v1/served', undefined, headers);
    expect(status, `the token of ${name}, ${found} (${this.#client.about})`).toBe(
      found === 'minted' ? 200 : 401,
    );
  }

  get #roster(): string {
    return `${this.#client.control}/host/v1/peers`;
  }
}
