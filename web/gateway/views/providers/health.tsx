/** The health of deployments, in words. */
import { formatMs, formatRelativeTime, formatTime } from '../../../ui/format.ts';
import { Badge } from '../../../ui/index.tsx';
import type { Deployment, Provider } from '../../api.ts';
import css from '../../gateway.module.css';

export function DeploymentBadge({
  deployment,
  provider,
}: {
  deployment: Deployment;
  provider: Pick<Provider, 'disabled'>;
}) {
  if (provider.disabled !== null) return <Badge tone="warn">provider disabled</Badge>;
  if (deployment.disabled !== null) return <Badge tone="warn">disabled</Badge>;
  if (deployment.breaker_open) return <Badge tone="bad">breaker open</Badge>;
  if (deployment.cooldown_ms > 0)
    return <Badge tone="warn">failed, asked last for {formatMs(deployment.cooldown_ms)}</Badge>;
  return deployment.last_request_at === null ? (
    <Badge>not used yet</Badge>
  ) : (
    <Badge tone="good">available</Badge>
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
