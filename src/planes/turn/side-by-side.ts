import { setTimeout as pause } from 'node:timers/promises';
import { HttpError } from '../../http/error.ts';

/** Delay before the next attempt where the queue is full with other requests. */
const retryMs = 50;

type Events<Event> = AsyncGenerator<Event, void, undefined>;

interface Running<Event> {
  readonly choice: number;
  readonly events: Events<Event>;
  next: Promise<Turn<Event>>;
}

type Turn<Event> = { readonly of: Running<Event> } & (
  | { readonly result: IteratorResult<Event, void> }
  | { readonly error: unknown }
);

/**
 * Runs generations concurrently and yields their events as they occur, each with the index of its generation. A full
 * queue fails the whole call only until the first generation is accepted; afterwards the others wait for space. Leaving
 * the loop stops all generations.
 * @param maxConcurrent limit of generations that run at a time
 */
export async function* sideBySide<Event extends object>(
  starts: readonly (() => Events<Event>)[],
  atOnce: number,
  signal: AbortSignal,
): Events<Event & { readonly choice: number }> {
  const [only] = starts;
  if (only && starts.length === 1) {
    for await (const event of only()) yield { ...event, choice: 0 };
    return;
  }
  const waiting = starts.map((_, choice) => choice);
  let running: Running<Event>[] = [];
  let room = atOnce;
  let accepted = false;
  try {
    for (;;) {
      while (running.length < room && waiting.length > 0) {
        const choice = waiting.shift() ?? 0;
        running.push(begin(choice, (starts[choice] as () => Events<Event>)()));
      }
      if (running.length === 0) return;
      const turn = await Promise.race(running.map(({ next }) => next));
      const { of: one } = turn;
      running = running.filter((other) => other !== one);
      if ('error' in turn) {
        if (!isFull(turn.error) || (running.length === 0 && !accepted)) throw turn.error;
        waiting.unshift(one.choice);
        room = Math.max(1, running.length);
        if (running.length === 0) await pause(retryMs, undefined, { signal }).catch(() => undefined);
        continue;
      }
      accepted = true;
      if (turn.result.done) {
        room = Math.min(atOnce, room + 1);
        continue;
      }
      // Moves the generation to the end, so that all are served in turn.
      one.next = turnOf(one);
      running.push(one);
      yield { ...turn.result.value, choice: one.choice };
    }
  } finally {
    for (const { events } of running) void events.return().catch(() => undefined);
  }
}

function begin<Event>(choice: number, events: Events<Event>): Running<Event> {
  const one = { choice, events } as Running<Event>;
  one.next = turnOf(one);
  return one;
}

const turnOf = <Event>(of: Running<Event>): Promise<Turn<Event>> =>
  of.events.next().then(
    (result) => ({ of, result }),
    (error: unknown) => ({ of, error }),
  );

const isFull = (error: unknown): boolean => error instanceof HttpError && error.code === 'queue_full';
