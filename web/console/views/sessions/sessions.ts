import type { components } from '../../../api/schema.d.ts';
import { stateLabel } from '../../../ui/states.ts';

export type Session = components['schemas']['Session'];

/** Console path of the task or run of a session; undefined for other kinds. */
export const subjectPath = ({ id, kind }: Pick<Session, 'id' | 'kind'>): string | undefined => {
  if (kind === 'task') return `/console/tasks/${id}`;
  return kind === 'run' ? `/console/runs/${id}` : undefined;
};

export const matchesFilter = (
  session: Session,
  filter: { kind: string; state: string; text: string },
): boolean =>
  (filter.kind === '' || session.kind === filter.kind) &&
  (filter.state === '' || stateLabel(session.state) === stateLabel(filter.state)) &&
  [session.id, session.title, session.harness, session.client, session.cwd, session.last_event]
    .join(' ')
    .toLowerCase()
    .includes(filter.text.trim().toLowerCase());
