import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'wouter';
import { api, unwrap } from '../../../api/client.ts';
import { session } from '../../../api/session.ts';
import { formatMs, formatNumber } from '../../../ui/format.ts';
import { protectedQueryOptions, ProtectedRouteFault } from '../../shell/protected-route.tsx';
import { Button, Facts } from '../../../ui/index.tsx';

/** Speed of recent completions as measured by the host. It needs the bearer token, so it is loaded on request. */
export function Speed() {
  const [isWanted, setWanted] = useState(session.isSignedIn);
  const speed = useQuery({
    queryKey: ['observe', 'speed'],
    enabled: isWanted,
    ...protectedQueryOptions,
    queryFn: () =>
      unwrap(
        api.POST('/observe/v1/query', {
          body: {
            surface: 'completions',
            where: [
              { column: 'started_at', op: 'gte', value: '-1h' },
              { column: 'decode_ms', op: 'is_null', value: false },
            ],
            aggregate: [
              { fn: 'count', as: 'answers' },
              { fn: 'p50', column: 'decode_tps', as: 'tps' },
              { fn: 'p50', column: 'first_token_ms', as: 'first' },
              { fn: 'p95', column: 'first_token_ms', as: 'first_p95' },
            ],
          },
        }),
      ),
  });
  if (!isWanted)
    return (
      <div>
        <Button onClick={() => setWanted(true)}>Show the speed of the last hour</Button>
      </div>
    );
  if (speed.isError)
    return <ProtectedRouteFault what="the speed" error={speed.error} retry={() => void speed.refetch()} />;
  const [answers, tps, first, firstP95] = (speed.data?.rows[0] ?? []) as (number | null)[];
  if (!speed.data) return null;
  if (!answers) return <p>No completion of the last hour has a measured speed.</p>;
  return (
    <>
      <h3>Speed of the last hour</h3>
      <Facts
        facts={[
          ['Completions', formatNumber(answers)],
          ['Decoding', tps ? `${formatNumber(tps)} tokens/s (median)` : 'not measured'],
          [
            'First token',
            first
              ? `${formatMs(first)} (median), ${formatMs(firstP95 ?? first)} (95th percentile)`
              : 'not measured',
          ],
        ]}
      />
      <p>
        <Link href="/console/observe/questions/load">Load per hour</Link>
      </p>
    </>
  );
}
