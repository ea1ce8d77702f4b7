import { errorMessage } from '../util/error-message.ts';
import type { RackId } from '../watch/index.ts';
import { counted } from '../words/count.ts';
import { longestContent } from './histories/stored-event.ts';
import type { NewEvent } from './types.ts';

/** What waits at most, here and at the thread that stores it. Units are those of UTF-16. */
const most = { events: 20_000, units: 32 * 1024 * 1024 };
/** So long is collected before the thread hears of it, in ms. */
const pause = 200;
/** So much does not wait for more. */
const enough = { events: 256, units: 1024 * 1024 };
/** Losses are told so often at most, in ms. */
const tellEvery = 60_000;

interface Options {
  readonly store: (rack: RackId, events: readonly NewEvent[]) => Promise<unknown>;
  readonly onFault: (message: string) => void;
}

/**
 * What the host says itself, on its way to the disk. Nobody waits for it: what comes faster than it can be stored is
 * dropped, and counted.
 */
export class CaptureBuffer {
  readonly #options: Options;
  #collected = new Map<RackId, NewEvent[]>();
  /** Collected now. */
  #here = { events: 0, units: 0 };
  /** Collected or on its way. */
  readonly #all = { events: 0, units: 0 };
  #timer: NodeJS.Timeout | undefined;
  readonly #storing = new Set<Promise<void>>();
  /** Not told yet, by rack and reason. */
  readonly #lost = new Map<string, { events: number; readonly rack: RackId; readonly reason: string }>();
  #toldAt = -Infinity;

  constructor(options: Options) {
    this.#options = options;
  }

  take(rack: RackId, events: readonly NewEvent[]): void {
    for (const event of events) {
      // One unit more than is kept tells that it was cut.
      const content = event.content?.slice(0, longestContent + 1);
      this.#takeOne(rack, content === undefined ? event : { ...event, content });
    }
    if (this.#here.events >= enough.events || this.#here.units >= enough.units) this.flush();
    else this.#timer ??= setTimeout(() => this.flush(), pause).unref();
  }

  #takeOne(rack: RackId, event: NewEvent): void {
    const units = unitsOf(event);
    if (this.#all.events + 1 > most.events || this.#all.units + units > most.units) {
      this.#lose(rack, 1, 'they came faster than they could be stored');
      return;
    }
    for (const count of [this.#here, this.#all]) {
      count.events++;
      count.units += units;
    }
    const collected = this.#collected.get(rack);
    if (collected) collected.push(event);
    else this.#collected.set(rack, [event]);
  }

  /** Everything that was taken is on its way when it returns. */
  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const collected = this.#collected;
    this.#collected = new Map();
    this.#here = { events: 0, units: 0 };
    for (const [rack, events] of collected) {
      const storing = this.#store(rack, events).finally(() => {
        this.#storing.delete(storing);
        this.#all.events -= events.length;
        for (const event of events) this.#all.units -= unitsOf(event);
      });
      this.#storing.add(storing);
    }
  }

  /** Everything that was taken is stored, or lost. */
  async settled(): Promise<void> {
    this.flush();
    await Promise.all(this.#storing);
    this.#tellLost();
  }

  async #store(rack: RackId, events: readonly NewEvent[]): Promise<void> {
    try {
      await this.#options.store(rack, events);
    } catch (error) {
      // One that no thread can be sent, as with a function in it, is lost alone.
      const unsendable = error instanceof DOMException && error.name === 'DataCloneError';
      if (unsendable && events.length > 1)
        await Promise.all(events.map((event) => this.#store(rack, [event])));
      else this.#lose(rack, events.length, errorMessage(error));
    }
  }

  #lose(rack: RackId, events: number, reason: string): void {
    const key = `${rack} ${reason}`;
    const known = this.#lost.get(key);
    if (known) known.events += events;
    else this.#lost.set(key, { events, rack, reason });
    if (performance.now() - this.#toldAt > tellEvery) this.#tellLost();
  }

  #tellLost(): void {
    if (this.#lost.size === 0) return;
    this.#toldAt = performance.now();
    for (const { events, rack, reason } of this.#lost.values())
      this.#options.onFault(`${counted(events, 'event')} of the rack '${rack}' not stored: ${reason}`);
    this.#lost.clear();
  }
}

/** Of its long parts, and something for all others. */
export const unitsOf = ({ content = '', attributes }: NewEvent): number =>
  300 + content.length + (attributes === undefined ? 0 : Object.keys(attributes).length * 50);
