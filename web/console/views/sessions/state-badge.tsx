import { StateBadge } from '../../../ui/state-badge.tsx';
import type { Session } from './sessions.ts';

export const SessionStateBadge = ({
  session,
}: {
  session: Pick<Session, 'state' | 'waiting_on' | 'stale'>;
}) => (
  <>
    <StateBadge state={session.state}>
      {session.waiting_on !== undefined && `: ${session.waiting_on}`}
    </StateBadge>
    {session.stale === true && (
      <>
        {' '}
        <StateBadge state="stale" />
      </>
    )}
  </>
);
