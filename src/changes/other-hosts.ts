import type { EventFeed } from '../agent/event-feed.ts';
import { sleep } from '../util/sleep.ts';
import type { ChangeBus } from './change-bus.ts';

interface FollowOptions {
  readonly events: Pick<EventFeed, 'read'>;
  readonly bus: ChangeBus;
  readonly onFault: (where: string, error: unknown) => void;
}

const topicOfSubject = { task: 'tasks', run: 'runs', pending: 'pending' } as const;
/** Pause after a failure of the database, in ms. */
const retryMs = 5000;

/**
 * Announces what other hosts do to the tasks, runs and pending changes of a database that they share, as long as somebody reads.
 */
export function followOtherHosts({ events, bus, onFault }: FollowOptions): void {
  const follow = async (signal: AbortSignal): Promise<void> => {
    for await (const { event } of events.read({ after: undefined, types: undefined, signal })) {
      if (!event) continue;
      const topic = topicOfSubject[event.type.split('.', 1)[0] as keyof typeof topicOfSubject];
      bus.announce(topic, event.data.id);
      bus.announce('acts');
      bus.announce('receipts');
    }
  };
  bus.whileRead((signal) => {
    const run = async () => {
      while (!signal.aborted)
        try {
          await follow(signal);
        } catch (error) {
          if (signal.aborted) return;
          onFault('changes of other hosts', error);
          await sleep(retryMs, signal).catch(() => undefined);
        }
    };
    void run();
  });
}
