import { StateBadge } from '../../../ui/state-badge.tsx';

/** A recorded outcome, with the error code. */
export const OutcomeBadge = ({ outcome, code }: { outcome: string; code?: string }) => (
  <StateBadge state={outcome} isRecorded>
    {code !== undefined && code !== '' && `: ${code}`}
  </StateBadge>
);
