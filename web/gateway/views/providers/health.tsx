/** The health of deployments, in words. */
import { formatMs, formatRelativeTime, formatTime } from '../../../ui/format.ts';
import { LiveBadge } from '../../../ui/index.tsx';
import { StateBadge } from '../../../ui/state-badge.tsx';
import type { Deployment, Provider } from '../../api.ts';
import css from '../../gateway.module.css';

export function DeploymentBadge({
  deployment,
  provider,
}: {
  deployment: Deployment;
  provider: Pick<Provider, 'disabled'>;
}) {
  if (provider.disabled !== null) return <LiveBadge tone="warn">provider disabled</LiveBadge>;
  if (deployment.disabled !== null) return <StateBadge state="disabled" />;
  if (deployment.breaker_open) return <LiveBadge tone="bad">breaker open</LiveBadge>;
  if (deployment.cooldown_ms > 0)
    return <LiveBadge tone="warn">cooldown for {formatMs(deployment.cooldown_ms)}</LiveBadge>;
  return deployment.last_request_at === null ? (
    <LiveBadge>not used yet</LiveBadge>
  ) : (
    <LiveBadge tone="good">available</LiveBadge>
  );
}

export function LastError({ error }: { error: Deployment['last_error'] }) {
  if (error === null) return <span className={css['muted']}>none</span>;
  return (
    <span className={css['stack']}>
      <span>
        {error.status} {error.code}
      </span>
      <span className={css['small']} title={formatTime(error.at)}>
        {formatRelativeTime(error.at)}
      </span>
    </span>
  );
}

/** Who disabled it, when and why. */
export const DisabledFacts = ({ disabled }: { disabled: Provider['disabled'] }) =>
  disabled && (
    <p>
      Disabled <span title={formatTime(disabled.at)}>{formatRelativeTime(disabled.at)}</span> by {disabled.by}
      {disabled.note === null ? '.' : `: ${disabled.note}`}
    </p>
  );
