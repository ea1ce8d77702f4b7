import { useQuery } from '@tanstack/react-query';
import { api, unwrap } from '../../../api/client.ts';
import { formatMs, formatNumber } from '../../../ui/format.ts';
import { protectedQueryOptions, ProtectedRouteFault } from '../../shell/protected-route.tsx';
import { Loading } from '../../../ui/index.tsx';
import css from './chat.module.css';

const columns = ['queued_ms', 'prefill_ms', 'decode_ms', 'first_token_ms', 'decode_tps'] as const;
type HostTimings = Readonly<Record<(typeof columns)[number], number | null>>;

/** The host writes rows in batches, so the row of a new answer may not exist yet. */
class NotStoredYet extends Error {}

async function fetchTimings(requestId: string): Promise<HostTimings> {
  const { rows } = await unwrap(
    api.POST('/observe/v1/query', {
      body: {
        surface: 'completions',
        select: [...columns],
        where: [{ column: 'id', op: 'eq', value: requestId }],
      },
    }),
  );
  const row = rows[0];
  if (!row) throw new NotStoredYet('The host has not stored the timings of this answer yet.');
  return Object.fromEntries(columns.map((name, index) => [name, row[index] ?? null])) as HostTimings;
}

/** Timings of an answer as measured by the host, without network time. */
export function HostTimingsView({ requestId }: { requestId: string }) {
  const timings = useQuery({
    queryKey: ['observe', 'times', requestId],
    queryFn: () => fetchTimings(requestId),
    ...protectedQueryOptions,
    staleTime: Infinity,
    retry: (failures, error) => error instanceof NotStoredYet && failures < 5,
    retryDelay: 500,
  });
  if (timings.isPending) return <Loading what="the host's timings" />;
  if (timings.isError)
    return (
      <ProtectedRouteFault
        what="the host's timings"
        error={timings.error}
        retry={() => void timings.refetch()}
      />
    );
  const { queued_ms: queued, prefill_ms: prefill, decode_ms: decode, decode_tps: speed } = timings.data;
  const total = (queued ?? 0) + (prefill ?? 0) + (decode ?? 0);
  const phases = [
    { name: 'queued', ms: queued, className: css['queuedPart'], key: css['queuedKey'] },
    { name: 'prefill', ms: prefill, className: css['prefillPart'], key: css['prefillKey'] },
    { name: 'decode', ms: decode, className: css['decodePart'], key: css['decodeKey'] },
  ];
  return (
    <div className={css['hostTimes']}>
      <div className={css['hostBar']} aria-hidden="true">
        {phases.map(({ name, ms, className }) => (
          <span key={name} className={className} style={{ width: `${((ms ?? 0) / total) * 100}%` }} />
        ))}
      </div>
      <ul className={css['timeFacts']}>
        {phases.map(({ name, ms, key }) => (
          <li key={name}>
            <span className={key} aria-hidden="true" /> {name}{' '}
            <strong>{ms === null ? 'not measured' : formatMs(ms)}</strong>
          </li>
        ))}
        {speed !== null && (
          <li>
            <strong>{formatNumber(speed)}</strong> tokens/s
          </li>
        )}
        <li>measured by the host</li>
      </ul>
    </div>
  );
}
