import { setTimeout as pause } from 'node:timers/promises';
import { HttpError } from '../../http/error.ts';

/** Delay before the next attempt where the queue is full with other requests. */
const retryMs = 50;

type Events<Event> = AsyncGenerator<Event, void, undefined>;

interface Running<Event> {
  readonly choice: number;
  readonly events: Events<Event>;
  next: Promise<NextEvent<Event>>;
}

type NextEvent<Event> = { readonly source: Running<Event> } & (
  | { readonly result: IteratorResult<Event, void> }
  | { readonly error: unknown }
);

/**
 * Runs generations concurrently and yields their events as they occur, each with the index of its generation. A full
 * queue fails the whole call only until the first generation is accepted; afterwards the others wait for space. Leaving
 * the loop stops all generations.
 * @param maxConcurrent limit of generations that run at a time
 */
export async function* runConcurrently<Event extends object>(
  starts: readonly (() => Events<Event>)[],
  maxConcurrent: number,
  signal: AbortSignal,
): Events<Event & { readonly choice: number }> {
  const [only] = starts;
  if (only && starts.length === 1) {
    for await (const event of only()) yield { ...event, choice: 0 };
    return;
  }
  const waiting = starts.map((_, choice) => choice);
  let running: Running<Event>[] = [];
  let concurrency = maxConcurrent;
  let hasAccepted = false;
  try {
    for (;;) {
      while (running.length < concurrency && waiting.length > 0) {
        const choice = waiting.shift() ?? 0;
        running.push(startGeneration(choice, (starts[choice] as () => Events<Event>)()));
      }
      if (running.length === 0) return;
      const nextEvent = await Promise.race(running.map(({ next }) => next));
      const { source: generation } = nextEvent;
      running = running.filter((other) => other !== generation);
      if ('error' in nextEvent) {
        if (!isQueueFull(nextEvent.error) || (running.length === 0 && !hasAccepted)) throw nextEvent.error;
        waiting.unshift(generation.choice);
        concurrency = Math.max(1, running.length);
        if (running.length === 0) await pause(retryMs, undefined, { signal }).catch(() => undefined);
        continue;
      }
      hasAccepted = true;
      if (nextEvent.result.done) {
        concurrency = Math.min(maxConcurrent, concurrency + 1);
        continue;
      }
      // Moves the generation to the end, so that all are served in turn.
      generation.next = readNext(generation);
      running.push(generation);
      yield { ...nextEvent.result.value, choice: generation.choice };
    }
  } finally {
    for (const { events } of running) void events.return().catch(() => undefined);
  }
}

function startGeneration<Event>(choice: number, events: Events<Event>): Running<Event> {
  const generation = { choice, events } as Running<Event>;
  generation.next = readNext(generation);
  return generation;
}

const readNext = <Event>(source: Running<Event>): Promise<NextEvent<Event>> =>
  source.events.next().then(
    (result) => ({ source, result }),
    (error: unknown) => ({ source, error }),
  );

const isQueueFull = (error: unknown): boolean => error instanceof HttpError && error.code === 'queue_full';
