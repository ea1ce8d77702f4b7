import { checkOptions, checkText } from './check.ts';
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
    return await this.#transport.json('GET', pathOf('pending.get', id));
  }

  /**
   * Approves a change and applies it; approving twice applies it once.
   * @param options.digest of the change as you have seen it: one that a person edited since is refused (`changed`)
   * @throws LatheError `base_moved`, `changed` and others; TypeError for other arguments
   */
  async approve(id: string, options: { readonly digest?: string | undefined } = {}): Promise<void> {
    checkOptions('pending.approve', options, { digest: 'text' });
    const { digest } = options;
    const query = digest === undefined ? '' : `?digest=${encodeURIComponent(digest)}`;
    await this.#transport.send('POST', `${pathOf('pending.approve', id)}/approve${query}`);
  }

  /** Approves changes of files together: all are applied, or none. @returns their ids, in the order of application */
  async approveTogether(ids: readonly string[]): Promise<readonly string[]> {
    const { applied } = await this.#transport.json<{ applied: string[] }>('POST', '/pending/approve', {
      body: { ids },
    });
    return applied;
  }

  /**
   * Declines a change.
   * @param options.note told to a task that waits for the decision
   */
  async discard(id: string, options: { readonly note?: string | undefined } = {}): Promise<void> {
    checkOptions('pending.discard', options, { note: 'text' });
    const { note } = options;
    await this.#transport.send('POST', `${pathOf('pending.discard', id)}/discard`, {
      body: note === undefined ? {} : { note },
    });
  }

  /** Replaces the text of a change, which stays staged. */
  async edit(id: string, content: string): Promise<void> {
    checkText('pending.edit', 'content', content);
    await this.#transport.send('POST', `${pathOf('pending.edit', id)}/edit`, { body: { content } });
  }
}

function pathOf(method: string, id: string): string {
  checkText(method, 'id', id);
  return `/pending/${encodeURIComponent(id)}`;
}
