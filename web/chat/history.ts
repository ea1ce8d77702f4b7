/** Conversations in this browser's database, shared by all tabs. The host stores nothing of them. */
import { clear, createStore, del, get, update, type UseStore, values } from 'idb-keyval';
import { asReceived, asStopped, mergeConversations, otherTab, pageClosed } from './merge.ts';
import type { Answer, Conversation, Message } from './tree.ts';

export interface HistoryOptions<Turn> {
  /** Name of the database, and of the channel between tabs. */
  readonly name: string;
  /** Set to `off` in the local storage when the user does not want a history. */
  readonly optOutKey: string;
  /** A turn as it is stored: smaller, and without what cannot be cloned. */
  readonly storable: (turn: Turn) => Turn;
  /** The inverse. */
  readonly revived?: (turn: Turn) => Turn;
}

/** What another tab did. */
export type HistoryChange<Turn extends Message | Answer> =
  | { readonly type: 'stored'; readonly conversation: Conversation<Turn> }
  | { readonly type: 'deleted'; readonly id: string }
  | { readonly type: 'enabled'; readonly isEnabled: boolean };

type Announcement =
  | { readonly type: 'stored' | 'deleted'; readonly id: string }
  | { readonly type: 'enabled'; readonly isEnabled: boolean };

export class History<Turn extends Message | Answer> {
  readonly #options: HistoryOptions<Turn>;
  #store: UseStore | undefined;
  #channel: BroadcastChannel | undefined;
  /** Conversations that are stored as far as this tab knows: a missing one was deleted by another tab. */
  readonly #stored = new Set<string>();

  constructor(options: HistoryOptions<Turn>) {
    this.#options = options;
  }

  get isEnabled(): boolean {
    try {
      return localStorage.getItem(this.#options.optOutKey) !== 'off';
    } catch {
      // Storage is blocked.
      return false;
    }
  }

  /** Enables the history, or disables it and deletes what is stored. @throws where the browser blocks storage */
  async enable(isEnabled: boolean): Promise<void> {
    if (isEnabled) localStorage.removeItem(this.#options.optOutKey);
    else {
      localStorage.setItem(this.#options.optOutKey, 'off');
      await clear(this.#open());
    }
    this.#stored.clear();
    this.#announce({ type: 'enabled', isEnabled });
  }

  /** Stored conversations. An answer that was in progress when its page was closed has ended there. */
  async read(): Promise<Conversation<Turn>[]> {
    if (!this.isEnabled) return [];
    const stored: unknown[] = await values(this.#open());
    const read = stored.filter(isConversation<Turn>).map((one) => this.#revive(one, pageClosed));
    for (const { id } of read) this.#stored.add(id);
    return read;
  }

  /** Stores a conversation, joined with what other tabs stored of it. One that another tab deleted stays deleted. */
  async write(conversation: Conversation<Turn>): Promise<void> {
    if (!this.isEnabled) return;
    const { id } = conversation;
    const turns = conversation.turns.map(this.#options.storable);
    const own = { ...conversation, turns };
    let isDeleted = false;
    await update<unknown>(
      id,
      (before) => {
        if (isConversation<Turn>(before)) {
          const merged = mergeConversations(own, before);
          return { ...merged, turns: merged.turns.map(asReceived) };
        }
        isDeleted = this.#stored.has(id);
        return isDeleted ? undefined : own;
      },
      this.#open(),
    );
    // The library stores the key with an empty value.
    if (isDeleted) return await del(id, this.#open());
    this.#stored.add(id);
    this.#announce({ type: 'stored', id });
  }

  async delete(id: string): Promise<void> {
    await del(id, this.#open());
    this.#announce({ type: 'deleted', id });
  }

  async clear(): Promise<void> {
    const ids = [...this.#stored];
    await clear(this.#open());
    for (const id of ids) this.#announce({ type: 'deleted', id });
  }

  /** Calls back when another tab changed the history. */
  watch(onChange: (change: HistoryChange<Turn>) => void): void {
    this.#openChannel()?.addEventListener('message', ({ data }: MessageEvent<Announcement>) => {
      if (data.type === 'deleted') onChange({ type: 'deleted', id: data.id });
      else if (data.type === 'enabled') {
        this.#stored.clear();
        onChange({ type: 'enabled', isEnabled: data.isEnabled });
      } else
        get<unknown>(data.id, this.#open()).then(
          (stored) => {
            if (!isConversation<Turn>(stored)) return;
            this.#stored.add(stored.id);
            onChange({ type: 'stored', conversation: this.#revive(stored, otherTab) });
          },
          () => {
            // Unreadable here: it appears with the next change or reload.
          },
        );
    });
  }

  #revive(stored: Conversation<Turn>, finishReason: string): Conversation<Turn> {
    const { revived = (turn: Turn) => turn } = this.#options;
    return { ...stored, turns: stored.turns.map((turn) => revived(asStopped(turn, finishReason))) };
  }

  #open(): UseStore {
    return (this.#store ??= createStore(this.#options.name, 'conversations'));
  }

  #openChannel(): BroadcastChannel | undefined {
    if (typeof BroadcastChannel === 'undefined') return undefined;
    return (this.#channel ??= new BroadcastChannel(this.#options.name));
  }

  #announce(announcement: Announcement): void {
    this.#openChannel()?.postMessage(announcement);
  }
}

const isConversation = <Turn extends Message | Answer>(value: unknown): value is Conversation<Turn> => {
  const { id, title, system, turns, chosen } = (value ?? {}) as Partial<
    Record<keyof Conversation<Turn>, unknown>
  >;
  return (
    typeof id === 'string' &&
    typeof title === 'string' &&
    typeof system === 'string' &&
    Array.isArray(turns) &&
    typeof chosen === 'object' &&
    chosen !== null
  );
};
