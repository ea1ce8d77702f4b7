import { Badge } from '../../../ui/index.tsx';
import { type Session, stateTone } from './sessions.ts';

export const StateBadge = ({ session }: { session: Pick<Session, 'state' | 'waiting_on' | 'stale'> }) => (
  <>
    <Badge tone={stateTone(session.state)}>
      {session.state}
      {session.waiting_on !== undefined && `: ${session.waiting_on}`}
    </Badge>
    {session.stale === true && (
      <>
        {' '}
        <Badge tone="warn">stale</Badge>
      </>
    )}
  </>
);
