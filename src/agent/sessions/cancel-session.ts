import { AgentError } from '../errors.ts';
import type { LiveSessionSource } from '../services.ts';
import { hostRowId } from './session-feed.ts';

export interface CancelOptions {
  readonly tasks: LiveSessionSource;
  readonly external: LiveSessionSource;
  readonly runs: {
    /** Cancels at the next step boundary. @throws AgentError not_found, conflict */
    cancel(id: string, by: string): Promise<unknown>;
  };
}

/** Cancels a live run; other sessions cannot be cancelled. @throws AgentError not_found, conflict */
export async function cancelSession(
  id: string,
  by: string,
  { tasks, external, runs }: CancelOptions,
): Promise<{ id: string; cancel: 'requested' }> {
  if (/^r\d+$/.test(id)) {
    await runs.cancel(id, by);
    return { id, cancel: 'requested' };
  }
  if (id === hostRowId) throw notCancellable('This row is the host itself; stop its process to end it.');
  const isLive = async (rows: LiveSessionSource) => (await rows.live()).some((row) => row.id === id);
  if (id.startsWith('t') && (await isLive(tasks)))
    throw notCancellable(
      `${id} is a task, which cannot be cancelled at a step boundary. POST /agent/v1/tasks/${id}/stop ends it at once.`,
    );
  if (id.startsWith('x') && (await isLive(external)))
    throw notCancellable(`${id} runs outside of this host; stop it where it runs, and it will end here.`);
  throw new AgentError('not_found', 'unknown_session', `There is no live session ${id.slice(0, 80)}.`);
}

const notCancellable = (message: string) => new AgentError('conflict', 'not_cancellable', message);
