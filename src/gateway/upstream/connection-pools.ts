import { Agent, type Dispatcher } from 'undici';
import type { ResolveHost } from '../../addresses/resolve.ts';
import { type AddressMode, createVettedConnector } from './address-vetting.ts';

export interface ConnectionOptions {
  readonly resolve: ResolveHost;
  readonly connectMs: number;
}

/** Connection pools, one for each address mode. The caller enforces time limits of answers. */
export class ConnectionPools {
  readonly #options: ConnectionOptions;
  readonly #agents = new Map<AddressMode, Agent>();

  constructor(options: ConnectionOptions) {
    this.#options = options;
  }

  dispatcherFor(mode: AddressMode): Dispatcher {
    const existing = this.#agents.get(mode);
    if (existing) return existing;
    const agent = new Agent({
      connect: createVettedConnector(mode, this.#options),
      allowH2: false,
      headersTimeout: 0,
      bodyTimeout: 0,
      // Shorter than providers keep connections open; a server's keep-alive hint takes precedence.
      keepAliveTimeout: 30_000,
      maxHeaderSize: 32 * 1024,
    });
    this.#agents.set(mode, agent);
    return agent;
  }

  /** Closes all connections, also those in use. */
  async close(): Promise<void> {
    await Promise.all([...this.#agents.values()].map((agent) => agent.destroy()));
  }
}
