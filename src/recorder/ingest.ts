import { RecorderError } from './errors.ts';
import type { Grants } from './control/grants.ts';
import type { Review } from './control/review.ts';
import { utf16Size } from './capture-buffer.ts';
import type { AddResult } from './histories/protocol.ts';
import { TokenRateLimiter } from './token-rate-limiter.ts';
import type { RecorderService } from './services.ts';
import type { NewEvent } from './types.ts';
import type { RackId } from '../tracing/index.ts';

/** Limit of events that wait for the disk, in UTF-16 units. */
const maxPendingUnits = 32 * 1024 * 1024;

interface Options {
  readonly grants: Grants;
  readonly review: Review;
  /** Stores events under the rack's current settings. Resolves to undefined if the rack is not armed. */
  readonly add: (rack: RackId, source: string, events: readonly NewEvent[]) => Promise<AddResult | undefined>;
}

/** Stores events that clients send, authorized by write tokens. */
export class Ingest {
  readonly #options: Options;
  readonly #rate = new TokenRateLimiter();
  #pendingUnits = 0;

  constructor(options: Options) {
    this.#options = options;
  }

  /** @throws RecorderError, which is also recorded in the review */
  async ingest(
    token: string | null,
    events: readonly NewEvent[],
    by: string,
  ): ReturnType<RecorderService['ingest']> {
    const { grants, review } = this.#options;
    let rack: RackId | null = null;
    try {
      const found = await grants.authenticateToken(token, by);
      rack = found.rack;
      const { accepted, duplicates, redacted } = await this.#storeEvents(found, events);
      // If this fails, the request fails. Events that the sender repeats are stored once.
      const details = { token: found.id, accepted, duplicates, redacted };
      await review.write({ by, act: 'ingest', rack, details });
      return { rack, accepted, duplicates, redacted };
    } catch (error) {
      if (error instanceof RecorderError)
        review.recordRefusal({ by, rack, details: { act: 'ingest', code: error.code } });
      throw error;
    }
  }

  async #storeEvents(
    { id, rack }: { id: string; rack: RackId },
    events: readonly NewEvent[],
  ): Promise<AddResult> {
    if (!this.#rate.tryAcquire(id))
      throw new RecorderError(
        'too_many',
        'too_many_requests',
        'Too many requests with this write token; send more events per request, at most 256.',
      );
    const units = events.reduce((sum, event) => sum + utf16Size(event), 0);
    if (this.#pendingUnits + units > maxPendingUnits)
      throw new RecorderError(
        'too_many',
        'recorder_busy',
        'Too many events are waiting for the disk; send these events again later.',
      );
    this.#pendingUnits += units;
    try {
      const added = await this.#options.add(rack, `token:${id}`, events);
      if (added) return added;
    } finally {
      this.#pendingUnits -= units;
    }
    throw new RecorderError(
      'conflict',
      'rack_disarmed',
      `The rack '${rack}' is disarmed and stores nothing. Arm it with PUT /recorder/v1/racks/${rack} {"armed": true}.`,
    );
  }
}
