import type { Selectable } from 'kysely';
import type { Tables } from '../../store/index.ts';
import type { Session } from '../shapes/session.ts';

export type TaskRow = Selectable<Tables['tasks']>;

/** A task as a row of the session feed; unknown members are left out. */
export function toTaskSession(row: TaskRow): Session {
  const { id, title, state, started_at, engine, model } = row;
  const prompt = row.prompt_tokens;
  const completion = row.completion_tokens;
  return {
    id,
    kind: 'task',
    title,
    state,
    started_at,
    ...(row.ended_at === null ? {} : { ended_at: row.ended_at }),
    ...(row.last_event === null ? {} : { last_event: row.last_event }),
    ...(row.cwd === null ? {} : { cwd: row.cwd }),
    ...(prompt === null || completion === null ? {} : { tokens: { prompt, completion } }),
    route: { engine, model },
    cancellable: false,
  };
}
