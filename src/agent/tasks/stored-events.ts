import type { Store } from '../../store/index.ts';
import type { TurnEvent } from '../shapes/turn-event.ts';

/** Lines that are held at a time. */
const batch = 64;

/** The events of a task as they are stored, those to come not. */
export async function* storedEvents(
  store: Store,
  stream: string,
): AsyncGenerator<TurnEvent, void, undefined> {
  let last = -1;
  for (;;) {
    const rows = await store.read((db) =>
      db
        .selectFrom('events')
        .select(['seq', 'event'])
        .where('stream', '=', stream)
        .where('seq', '>', last)
        .orderBy('seq')
        .limit(batch)
        .execute(),
    );
    for (const { seq, event } of rows) {
      last = seq;
      yield JSON.parse(event) as TurnEvent;
    }
    if (rows.length < batch) return;
  }
}
