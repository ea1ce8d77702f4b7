import { useSyncExternalStore } from 'react';
import { hostConnection } from '../../api/host-connection.ts';
import css from './shell.module.css';

/** The one message while the host does not answer. */
export function HostBanner() {
  const since = useSyncExternalStore(hostConnection.subscribe, () => hostConnection.downSince);
  if (since === undefined) return null;
  const time = new Date(since);
  return (
    <div className={css['banner']} role="alert">
      <strong>The host does not answer.</strong> Trying again… Since{' '}
      <time dateTime={time.toISOString()}>{time.toLocaleTimeString()}</time>. What is shown may be out of
      date.
    </div>
  );
}
