import { Badge } from '../../ui/index.tsx';
import type { State } from '../format.ts';

const tones = { active: 'good', disabled: 'warn', revoked: 'bad', expired: 'bad' } as const;

export const StateBadge = ({ state }: { state: State }) => <Badge tone={tones[state]}>{state}</Badge>;

/** How a request ended. */
export function OutcomeBadge(request: {
  state: string;
  status?: number | null | undefined;
  outcome?: string | null | undefined;
}) {
  const { state, status, outcome } = request;
  if (state === 'running') return <Badge>running</Badge>;
  const text =
    state === 'refused' || state === 'crash'
      ? state
      : ({ completed: 'done', failed: 'failed', client_gone: 'cancelled', cut: 'cut off' }[outcome ?? ''] ??
        state);
  const tone = text === 'done' ? 'good' : text === 'cancelled' ? undefined : 'bad';
  return <Badge tone={tone}>{status === null || status === undefined ? text : `${text} ${status}`}</Badge>;
}
