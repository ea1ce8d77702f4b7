import type { components } from '../../../api/schema.d.ts';

export type Session = components['schemas']['Session'];

/** Console path of the task or run of a session; undefined for other kinds. */
export const subjectPath = ({ id, kind }: Pick<Session, 'id' | 'kind'>): string | undefined => {
  if (kind === 'task') return `/console/tasks/${id}`;
  return kind === 'run' ? `/console/runs/${id}` : undefined;
};

export const stateTone = (state: string): 'good' | 'warn' | 'bad' | undefined => {
  if (state === 'completed') return 'good';
  if (state === 'failed' || state === 'cancelled') return 'bad';
  return state === 'running' ? undefined : 'warn';
};

export const matchesFilter = (
  session: Session,
  filter: { kind: string; state: string; text: string },
): boolean =>
  (filter.kind === '' || session.kind === filter.kind) &&
  (filter.state === '' || session.state === filter.state) &&
  [session.id, session.title, session.harness, session.client, session.cwd, session.last_event]
    .join(' ')
    .toLowerCase()
    .includes(filter.text.trim().toLowerCase());
