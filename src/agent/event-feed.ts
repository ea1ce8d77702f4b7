import type { Store } from '../store/index.ts';
import { sleep } from '../util/sleep.ts';
import { AgentError } from './errors.ts';
import { type AgentEvent, agentEventStates, type AgentEventType, isSelected } from './shapes/agent-event.ts';
import type { Signal, StoredSignals } from './signals.ts';

/** How often the database is polled for events, of this host and of others. */
const pollMs = 250;
/** How long a reader gets nothing at most. */
const heartbeatMs = 15_000;
/** Events that a reader fetches at a time. */
const readBatchSize = 64;

export interface FeedOptions {
  /** The last event that the reader has; undefined: it wants those from now on. */
  readonly after: number | undefined;
  /** Types or groups; undefined: all. */
  readonly types: readonly string[] | undefined;
  readonly signal: AbortSignal;
}

/** An event, or only how far the reader is: at the beginning, and after a while without events. */
export type FeedItem = { readonly id: number; readonly event?: AgentEvent };

/**
 * The events of the agent plane, which are signals in the database: stored with what they tell, numbered, and kept for a
 * while. Readers read the database, so a slow reader delays nothing and holds no memory.
 */
export class EventFeed {
  readonly #store: Store;
  readonly #signals: StoredSignals;
  #newest: { readonly atMs: number; readonly id: Promise<number> } | undefined;

  constructor({ store, signals }: { readonly store: Store; readonly signals: StoredSignals }) {
    this.#store = store;
    this.#signals = signals;
  }

  /** Id of the newest event, as of at most a poll ago: all readers share one poll. */
  newest(): Promise<number> {
    const atMs = performance.now();
    if (this.#newest && atMs - this.#newest.atMs < pollMs / 2) return this.#newest.id;
    const id = this.#store.read((db) => this.#signals.last(db));
    this.#newest = { atMs, id };
    return id;
  }

  /**
   * The events after one, and new ones as they occur. Rejects with the signal's reason.
   * @throws AgentError gone: events after that one were deleted, or there was no such event
   */
  async *read({ after, types, signal }: FeedOptions): AsyncGenerator<FeedItem, void, undefined> {
    let last = after ?? (await this.#store.read((db) => this.#signals.last(db)));
    if (after !== undefined) await this.#requireKept(after);
    yield { id: last };
    for (let sentMs = performance.now(); ; ) {
      signal.throwIfAborted();
      if ((await this.newest()) > last) {
        const signals = await this.#store.read((db) => this.#signals.after(db, last, readBatchSize));
        for (const one of signals) {
          if (one.seq !== last + 1) throw eventsGone(last);
          last = one.seq;
          const event = toAgentEvent(one);
          if (!event || !isSelected(event.type, types)) continue;
          yield { id: last, event };
          sentMs = performance.now();
          signal.throwIfAborted();
        }
        if (signals.length > 0) continue;
      }
      if (performance.now() - sentMs >= heartbeatMs) {
        yield { id: last };
        sentMs = performance.now();
      }
      await sleep(pollMs, signal);
    }
  }

  async #requireKept(after: number): Promise<void> {
    const isKept = await this.#store.read(async (db) => {
      const newest = await this.#signals.last(db);
      if (after >= newest) return after === newest;
      return (await this.#signals.after(db, after, 1))[0]?.seq === after + 1;
    });
    if (!isKept) throw eventsGone(after);
  }
}

const apiPaths = { task: 'tasks', run: 'runs', pending: 'pending' } as const;
type Subject = keyof typeof apiPaths;

/** @returns undefined for a signal that is no event of the feed */
export function toAgentEvent({ seq, name, at, data }: Signal): AgentEvent | undefined {
  if (!Object.hasOwn(agentEventStates, name)) return undefined;
  const type = name as AgentEventType;
  const stored = data as { readonly id: string };
  const path = apiPaths[type.split('.', 1)[0] as Subject];
  const state = agentEventStates[type];
  return {
    id: seq,
    type,
    timestamp: at,
    data: { ...stored, state, url: `/agent/v1/${path}/${stored.id}` },
  };
}

const eventsGone = (after: number): AgentError =>
  new AgentError(
    'gone',
    'events_gone',
    `The events after ${after} are not kept any more, or there was no such event. List the tasks, runs and changes anew, and read from now on: without Last-Event-ID and \`after\`.`,
  );
