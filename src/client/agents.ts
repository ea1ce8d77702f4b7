import type { Transport } from './transport.ts';
import type { AgentSpec } from './types.ts';

/** Stored agents. */
export class Agents {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  async list(): Promise<readonly AgentSpec[]> {
    return await this.#transport.json('GET', '/agents');
  }

  async get(name: string): Promise<AgentSpec> {
    return await this.#transport.json('GET', `/agents/${encodeURIComponent(name)}`);
  }

  /** Stores an agent, in the place of one with the same name. */
  async put(spec: AgentSpec): Promise<AgentSpec> {
    return await this.#transport.json('PUT', `/agents/${encodeURIComponent(spec.name)}`, { body: spec });
  }

  async delete(name: string): Promise<void> {
    await this.#transport.send('DELETE', `/agents/${encodeURIComponent(name)}`);
  }
}
