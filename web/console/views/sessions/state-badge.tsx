import { Badge, LiveBadge } from '../../../ui/index.tsx';
import { type Session, stateTone } from './sessions.ts';

export const StateBadge = ({ session }: { session: Pick<Session, 'state' | 'waiting_on' | 'stale'> }) => (
  <>
    <LiveBadge tone={stateTone(session.state)}>
      {session.state}
      {session.waiting_on !== undefined && `: ${session.waiting_on}`}
    </LiveBadge>
    {session.stale === true && (
      <>
        {' '}
        <Badge tone="warn">stale</Badge>
      </>
    )}
  </>
);
