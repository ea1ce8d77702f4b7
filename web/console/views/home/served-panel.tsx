import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { api, held } from '../../api/client.ts';
import { formatAgo, formatNumber, formatTime } from '../../parts/format.ts';
import { Facts, FaultNote, Loading, Panel } from '../../parts/index.tsx';
import { Speed } from './speed.tsx';
import { type Count, rateOf, withCount } from './token-rate.ts';

/** Totals since the start of the host, and its current throughput. */
export function ServedPanel() {
  const telemetry = useQuery({
    queryKey: ['host', 'telemetry'],
    queryFn: async () => ({ at: Date.now(), ...(await held(api.GET('/host/v1/telemetry'))) }),
    refetchInterval: 2000,
  });
  const { data } = telemetry;
  const [counts, setCounts] = useState<readonly Count[]>([]);
  useEffect(() => {
    if (data) setCounts((before) => withCount(before, { at: data.at, tokens: data.tokens.completion }));
  }, [data]);
  const rate = rateOf(counts);
  return (
    <Panel title="Usage">
      {telemetry.isPending && <Loading what="the totals" />}
      {telemetry.isError && <FaultNote error={telemetry.error} retry={() => void telemetry.refetch()} />}
      {data && (
        <>
          <Facts
            facts={[
              ['Since', `${formatTime(data.since)} (${formatAgo(data.since)})`],
              ['Completions', formatNumber(data.served.completions)],
              ['Tasks', formatNumber(data.served.tasks)],
              ['Workflow runs', formatNumber(data.served.workflow_runs)],
              [
                'Tokens',
                `${formatNumber(data.tokens.prompt)} prompt, ${formatNumber(data.tokens.completion)} completion, from ${formatNumber(data.measured_completions)} measured completions`,
              ],
              ['Throughput', rate === undefined ? 'measuring ...' : `${formatNumber(rate)} tokens/s`],
              ...(data.device_losses > 0
                ? ([['Device losses', `${data.device_losses}, all recovered`]] as const)
                : []),
            ]}
          />
          <p>
            <small>{data.coverage}</small>
          </p>
          <Speed />
        </>
      )}
    </Panel>
  );
}
