import { Link } from 'wouter';
import { formatRelativeTime } from '../../../ui/format.ts';
import { Panel } from '../../../ui/index.tsx';
import type { Status } from '../../api.ts';
import css from '../../gateway.module.css';

/** Why the configuration as it is written now is not in force; nothing where it is. */
export function RefusedConfiguration({
  status,
  withLink = false,
}: {
  status: Status | undefined;
  withLink?: boolean;
}) {
  const refused = status?.config?.refused;
  if (!refused) return null;
  return (
    <Panel
      title="The configuration is refused"
      {...(withLink ? { tools: <Link href="/providers">Reload it</Link> } : {})}
    >
      <p>
        The file was read {formatRelativeTime(refused.at)} and cannot be used. Version{' '}
        {status?.config?.version} stays in force. Correct these faults, then reload:
      </p>
      <ul className={css['list']}>
        {refused.faults.map((fault) => (
          <li key={fault} className={css['fault']}>
            {fault}
          </li>
        ))}
      </ul>
    </Panel>
  );
}
