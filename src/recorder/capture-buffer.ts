import { errorMessage } from '../util/error-message.ts';
import type { RackId } from '../tracing/index.ts';
import { pluralize } from '../words/count.ts';
import { maxContentLength } from './histories/stored-event.ts';
import type { NewEvent } from './types.ts';

/** Limits of events that wait to be stored, here and at the writer thread. `units` are UTF-16 units. */
const limits = { events: 20_000, units: 32 * 1024 * 1024 };
/** Time for which events are collected before they are sent to the thread. */
const flushDelayMs = 200;
/** Amount at which collected events are sent at once. */
const flushThreshold = { events: 256, units: 1024 * 1024 };
/** Minimum time between two reports of lost events. */
const reportIntervalMs = 60_000;

interface Options {
  readonly store: (rack: RackId, events: readonly NewEvent[]) => Promise<unknown>;
  readonly onFault: (message: string) => void;
}

/**
 * Buffers events that the host itself records. Callers do not wait for the disk: events that arrive faster than they
 * can be stored are dropped and counted.
 */
export class CaptureBuffer {
  readonly #options: Options;
  #collected = new Map<RackId, NewEvent[]>();
  /** Size of the collected events. */
  #collectedSize = { events: 0, units: 0 };
  /** Size of the events that are collected or being stored. */
  readonly #pendingSize = { events: 0, units: 0 };
  #timer: NodeJS.Timeout | undefined;
  readonly #storing = new Set<Promise<void>>();
  /** Losses that are not reported yet, by rack and reason. */
  readonly #losses = new Map<string, { events: number; readonly rack: RackId; readonly reason: string }>();
  #reportedAtMs = -Infinity;

  constructor(options: Options) {
    this.#options = options;
  }

  add(rack: RackId, events: readonly NewEvent[]): void {
    for (const event of events) {
      // One unit more than the limit, so that the writer sees that the content was cut.
      const content = event.content?.slice(0, maxContentLength + 1);
      this.#addOne(rack, content === undefined ? event : { ...event, content });
    }
    if (
      this.#collectedSize.events >= flushThreshold.events ||
      this.#collectedSize.units >= flushThreshold.units
    )
      this.flush();
    else this.#timer ??= setTimeout(() => this.flush(), flushDelayMs).unref();
  }

  #addOne(rack: RackId, event: NewEvent): void {
    const units = utf16Size(event);
    if (this.#pendingSize.events + 1 > limits.events || this.#pendingSize.units + units > limits.units) {
      this.#recordLoss(rack, 1, 'they came faster than they could be stored');
      return;
    }
    for (const count of [this.#collectedSize, this.#pendingSize]) {
      count.events++;
      count.units += units;
    }
    const collected = this.#collected.get(rack);
    if (collected) collected.push(event);
    else this.#collected.set(rack, [event]);
  }

  /** Sends all collected events to the thread. */
  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const collected = this.#collected;
    this.#collected = new Map();
    this.#collectedSize = { events: 0, units: 0 };
    for (const [rack, events] of collected) {
      const storing = this.#storeEvents(rack, events).finally(() => {
        this.#storing.delete(storing);
        this.#pendingSize.events -= events.length;
        for (const event of events) this.#pendingSize.units -= utf16Size(event);
      });
      this.#storing.add(storing);
    }
  }

  /** Resolves when every event that was added is stored or lost. */
  async drain(): Promise<void> {
    this.flush();
    await Promise.all(this.#storing);
    this.#reportLosses();
  }

  async #storeEvents(rack: RackId, events: readonly NewEvent[]): Promise<void> {
    try {
      await this.#options.store(rack, events);
    } catch (error) {
      // An event that cannot be cloned for the thread (it has a function, for example) must not take the others with
      // it.
      const unsendable = error instanceof DOMException && error.name === 'DataCloneError';
      if (unsendable && events.length > 1)
        await Promise.all(events.map((event) => this.#storeEvents(rack, [event])));
      else this.#recordLoss(rack, events.length, errorMessage(error));
    }
  }

  #recordLoss(rack: RackId, events: number, reason: string): void {
    const key = `${rack} ${reason}`;
    const loss = this.#losses.get(key);
    if (loss) loss.events += events;
    else this.#losses.set(key, { events, rack, reason });
    if (performance.now() - this.#reportedAtMs > reportIntervalMs) this.#reportLosses();
  }

  #reportLosses(): void {
    if (this.#losses.size === 0) return;
    this.#reportedAtMs = performance.now();
    for (const { events, rack, reason } of this.#losses.values())
      this.#options.onFault(`${pluralize(events, 'event')} of the rack '${rack}' not stored: ${reason}`);
    this.#losses.clear();
  }
}

/** Approximate size of an event in UTF-16 units: the lengths of its long parts plus a constant for the rest. */
export const utf16Size = ({ content = '', attributes }: NewEvent): number =>
  300 + content.length + (attributes === undefined ? 0 : Object.keys(attributes).length * 50);
