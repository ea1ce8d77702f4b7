import { useEffect, useState } from 'react';
import { formatRelativeTime, formatNumber, formatTime } from '../../../ui/format.ts';
import { Facts, FaultNote, Loading, Panel } from '../../../ui/index.tsx';
import { Speed } from './speed.tsx';
import { useTelemetry } from './telemetry.ts';
import { type TokenCount, tokenRate, appendCount } from './token-rate.ts';

/** Totals since the start of the host, and its current throughput. */
export function UsagePanel() {
  const telemetry = useTelemetry();
  const { data } = telemetry;
  const [counts, setCounts] = useState<readonly TokenCount[]>([]);
  useEffect(() => {
    if (data) setCounts((before) => appendCount(before, { timeMs: data.at, tokens: data.tokens.completion }));
  }, [data]);
  const rate = tokenRate(counts);
  return (
    <Panel title="Usage">
      {telemetry.isPending && <Loading what="the totals" />}
      {telemetry.isError && <FaultNote error={telemetry.error} retry={() => void telemetry.refetch()} />}
      {data && (
        <>
          <Facts
            facts={[
              ['Since', `${formatTime(data.since)} (${formatRelativeTime(data.since)})`],
              ['Completions', formatNumber(data.served.completions)],
              ['Tasks', formatNumber(data.served.tasks)],
              ['Workflow runs', formatNumber(data.served.workflow_runs)],
              [
                'Tokens',
                data.measured_completions === 0
                  ? 'none counted yet: streamed answers and those of agents are not'
                  : `${formatNumber(data.tokens.prompt)} prompt, ${formatNumber(data.tokens.completion)} completion, from ${formatNumber(data.measured_completions)} measured completions`,
              ],
              ['Throughput', rate === undefined ? 'idle' : `${formatNumber(rate)} tokens/s`],
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
