import { StateBadge } from '../../ui/state-badge.tsx';

/** How a request ended, with the status of the answer; `running` while it has not. */
export function OutcomeBadge(request: {
  state: string;
  status?: number | null | undefined;
  outcome?: string | null | undefined;
}) {
  const { state, status, outcome } = request;
  const isOutcome = !['running', 'refused', 'crash'].includes(state);
  return (
    <StateBadge state={isOutcome ? (outcome ?? state) : state} isRecorded>
      {status !== null && status !== undefined && ` ${status}`}
    </StateBadge>
  );
}
