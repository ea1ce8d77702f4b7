import { Badge } from '../../../../ui/index.tsx';
import type { Kernel } from './queries.ts';

const stateTones = {
  accepted: 'good',
  unverified: 'warn',
  stale: 'warn',
  rejected: 'bad',
  quarantined: 'bad',
} as const satisfies Readonly<Record<Kernel['state'], 'good' | 'warn' | 'bad'>>;

export const StateBadge = ({ state }: { state: Kernel['state'] }) => (
  <Badge tone={stateTones[state]}>{state}</Badge>
);
