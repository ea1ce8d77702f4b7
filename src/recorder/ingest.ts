import { RecorderError } from './errors.ts';
import type { Grants } from './control/grants.ts';
import type { Review } from './control/review.ts';
import { unitsOf } from './capture-buffer.ts';
import type { Added } from './histories/protocol.ts';
import { TokenRate } from './rate.ts';
import type { RecorderService } from './services.ts';
import type { NewEvent } from './types.ts';
import type { RackId } from '../watch/index.ts';

/** What may be waiting for the disk at once, in UTF-16 units. */
const most = 32 * 1024 * 1024;

interface Options {
  readonly grants: Grants;
  readonly review: Review;
  /** By what counts at this moment; undefined where the rack is not armed. */
  readonly add: (rack: RackId, source: string, events: readonly NewEvent[]) => Promise<Added | undefined>;
}

/** Events that others send, each under a write token. */
export class Ingest {
  readonly #options: Options;
  readonly #rate = new TokenRate();
  #waiting = 0;

  constructor(options: Options) {
    this.#options = options;
  }

  /** @throws RecorderError, which then stands in the review */
  async take(
    token: string | null,
    events: readonly NewEvent[],
    by: string,
  ): ReturnType<RecorderService['ingest']> {
    const { grants, review } = this.#options;
    let rack: RackId | null = null;
    try {
      const found = await grants.tokenOf(token, by);
      rack = found.rack;
      const { accepted, duplicates, redacted } = await this.#store(found, events);
      // When this cannot be written the sender hears of it, and what it sends again counts once.
      const details = { token: found.id, accepted, duplicates, redacted };
      await review.write({ by, act: 'ingest', rack, details });
      return { rack, accepted, duplicates, redacted };
    } catch (error) {
      if (error instanceof RecorderError)
        review.refuse({ by, rack, details: { act: 'ingest', code: error.code } });
      throw error;
    }
  }

  async #store({ id, rack }: { id: string; rack: RackId }, events: readonly NewEvent[]): Promise<Added> {
    if (!this.#rate.draw(id))
      throw new RecorderError(
        'too_many',
        'too_many_requests',
        'The write token is used too often; send more events in fewer requests, at most 256 in each.',
      );
    const units = events.reduce((sum, event) => sum + unitsOf(event), 0);
    if (this.#waiting + units > most)
      throw new RecorderError(
        'too_many',
        'recorder_busy',
        'More events are waiting for the disk than the recorder holds; send these again later.',
      );
    this.#waiting += units;
    try {
      const added = await this.#options.add(rack, `token:${id}`, events);
      if (added) return added;
    } finally {
      this.#waiting -= units;
    }
    throw new RecorderError(
      'conflict',
      'rack_disarmed',
      `The rack '${rack}' is disarmed: nothing is kept. PUT /recorder/v1/racks/${rack} with {"armed": true} arms it.`,
    );
  }
}
