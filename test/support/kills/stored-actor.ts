import { expect } from 'vitest';
import type { Actor, Answer, HostClient } from './host-client.ts';

/** What was acknowledged, and what was asked for and not answered. Null: there is none. */
interface Kept {
  certain: string | null;
  requested?: string | null;
}

/** A workflow with a greedy agent: sampled, the answer of the embedded model may be empty. */
export function workflowSource(name: string, model: string, gate = '', entry = ''): string {
  const agent = `[agents.worker]\ninstructions = "Work."\nmodel = "${model}"\nsampling = { temperature = 0 }\n`;
  const step = (id: string, more: string) =>
    `[[steps]]\nid = "${id}"\nagent = "worker"\nprompt = "Go."\n${more}\n`;
  const nonce = `# ${crypto.randomUUID()}`;
  return `[ensemble]\nname = "${name}"\nversion = "1.0.0"\n${nonce}\n${entry}${agent}${step('first', '')}${step('second', gate)}`;
}

/** Makes, replaces and deletes what is stored by name: agents and workflows. */
export class StoredActor implements Actor {
  readonly #client: HostClient;
  readonly #model: string;
  readonly #agents = new Map<string, Kept>();
  readonly #workflows = new Map<string, Kept>();
  #count = 0;

  constructor(client: HostClient, model: string) {
    this.#client = client;
    this.#model = model;
  }

  readonly acts = [() => this.#agent(), () => this.#workflow(), () => this.#fork()];

  async check(): Promise<void> {
    for (const [name, kept] of this.#agents)
      this.#settle(kept, await this.#found(`/agent/v1/agents/${name}`, 'instructions'), name);
    for (const [name, kept] of this.#workflows)
      this.#settle(kept, await this.#found(`/agent/v1/workflows/${name}`, 'source'), name);
  }

  async #agent(): Promise<void> {
    const name = `a${this.#count++ % 5}`;
    const path = `/agent/v1/agents/${name}`;
    const spec = () => ({ name, instructions: `${name} ${'x'.repeat(5000)} ${crypto.randomUUID()}` });
    const [first, second] = [spec(), spec()];
    const ask = this.#client.ask.bind(this.#client);
    await this.#keep(this.#agents, name, first.instructions, () => ask('PUT', path, first));
    if (this.#count % 3 > 0) return;
    await this.#keep(this.#agents, name, null, () => ask('DELETE', path));
    await this.#keep(this.#agents, name, second.instructions, () => ask('POST', '/agent/v1/agents', second));
  }

  async #workflow(): Promise<void> {
    const name = `w${this.#count++ % 5}`;
    const path = `/agent/v1/workflows/${name}`;
    const source = workflowSource(name, this.#model);
    await this.#keep(this.#workflows, name, source, () => this.#client.ask('PUT', path, source));
    if (this.#count % 3 === 0)
      await this.#keep(this.#workflows, name, null, () => this.#client.ask('DELETE', path));
  }

  /** Only the name of a copy is known beforehand. */
  async #fork(): Promise<void> {
    const as = `fork${this.#count++ % 3}`;
    const { status } = await this.#client.ask('POST', '/agent/v1/workflows/release-notes/fork', { as });
    expect([201, 409], this.#client.about).toContain(status);
    await this.#client.ask('DELETE', `/agent/v1/workflows/${as}`);
  }

  async #keep(
    map: Map<string, Kept>,
    name: string,
    to: string | null,
    ask: () => Promise<Answer>,
  ): Promise<void> {
    const kept = map.get(name) ?? { certain: null };
    map.set(name, kept);
    kept.requested = to;
    const { status } = await ask();
    if (status < 300) kept.certain = to;
    delete kept.requested;
  }

  #settle(kept: Kept, found: string | null, name: string): void {
    const possible = kept.requested === undefined ? [kept.certain] : [kept.certain, kept.requested];
    expect(possible, `${name} (${this.#client.about})`).toContain(found);
    kept.certain = found;
    delete kept.requested;
  }

  async #found(path: string, member: string): Promise<string | null> {
    const { status, text } = await this.#client.ask('GET', path);
    return status === 404 ? null : ((JSON.parse(text) as Record<string, string>)[member] ?? '');
  }
}
