import type { Store } from '../../store/index.ts';
import type { TurnEvent } from '../shapes/turn-event.ts';

/** Events that are fetched at a time. */
const readBatchSize = 64;

/** Reads the stored events of a task or run; does not wait for new ones. */
export async function* readStoredEvents<Event = TurnEvent>(
  store: Store,
  stream: string,
  after = -1,
): AsyncGenerator<Event, void, undefined> {
  let last = after;
  for (;;) {
    const rows = await store.read((db) =>
      db
        .selectFrom('events')
        .select(['seq', 'event'])
        .where('stream', '=', stream)
        .where('seq', '>', last)
        .orderBy('seq')
        .limit(readBatchSize)
        .execute(),
    );
    for (const { seq, event } of rows) {
      last = seq;
      yield JSON.parse(event) as Event;
    }
    if (rows.length < readBatchSize) return;
  }
}
