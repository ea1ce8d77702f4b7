import { Badge } from '../../../ui/index.tsx';

const outcomes: Readonly<Record<string, readonly [label: string, tone: 'good' | 'warn' | 'bad']>> = {
  ok: ['done', 'good'],
  completed: ['done', 'good'],
  refused: ['refused', 'bad'],
  failed: ['failed', 'bad'],
  cut: ['failed', 'bad'],
  abandoned: ['cancelled', 'warn'],
  client_gone: ['cancelled', 'warn'],
  cancelled: ['cancelled', 'warn'],
};

/** Label of a recorded outcome, in the words of the other views. */
export const outcomeLabel = (outcome: string): string => outcomes[outcome]?.[0] ?? (outcome || 'unknown');

export const OutcomeBadge = ({ outcome, code }: { outcome: string; code?: string }) => (
  <Badge tone={outcomes[outcome]?.[1]}>
    {outcomeLabel(outcome)}
    {code !== undefined && code !== '' && `: ${code}`}
  </Badge>
);
