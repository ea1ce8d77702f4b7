import type { Transport } from './transport.ts';
import type { PendingChange, PendingChangeDetail } from './types.ts';

/** Changes that wait for a person. */
export class Pending {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Oldest first. */
  async list(): Promise<readonly PendingChange[]> {
    return await this.#transport.json('GET', '/pending');
  }

  async get(id: string): Promise<PendingChangeDetail> {
    return await this.#transport.json('GET', path(id));
  }

  /**
   * Approves a change and applies it; approving twice applies it once.
   * @param options.digest of the change as you have seen it: one that a person edited since is refused (`changed`)
   * @throws LatheError `base_moved`, `changed` and others
   */
  async approve(id: string, { digest }: { readonly digest?: string } = {}): Promise<void> {
    const query = digest === undefined ? '' : `?digest=${encodeURIComponent(digest)}`;
    await this.#transport.send('POST', `${path(id)}/approve${query}`);
  }

  /** Approves changes of files together: all are applied, or none. @returns their ids, in the order of application */
  async approveTogether(ids: readonly string[]): Promise<readonly string[]> {
    const { applied } = await this.#transport.json<{ applied: string[] }>('POST', '/pending/approve', {
      body: { ids },
    });
    return applied;
  }

  /** @param note told to a task that waits for the decision */
  async discard(id: string, note?: string): Promise<void> {
    await this.#transport.send('POST', `${path(id)}/discard`, { body: note === undefined ? {} : { note } });
  }

  /** Replaces the text of a change, which stays staged. */
  async edit(id: string, content: string): Promise<void> {
    await this.#transport.send('POST', `${path(id)}/edit`, { body: { content } });
  }
}

const path = (id: string): string => `/pending/${encodeURIComponent(id)}`;
