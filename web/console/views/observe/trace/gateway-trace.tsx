import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { formatMs, formatNanodollars, formatNumber, formatTime } from '../../../../ui/format.ts';
import { Facts, Panel } from '../../../../ui/index.tsx';
import { protectedQueryOptions } from '../../../shell/protected-route.tsx';
import { OutcomeBadge } from '../outcome-badge.tsx';
import { gatewayOutcome, gatewaySpans } from './spans.ts';
import { fetchRecords } from '../fetch-records.ts';
import { numberIn, textIn } from '../records.ts';
import { explorePath, transcriptPath } from './links.ts';

import css from './trace.module.css';
import { TracePage } from './trace-page.tsx';
import { Waterfall } from './waterfall.tsx';

async function fetchRequest(id: string) {
  const [requests, attempts] = await Promise.all([
    fetchRecords({
      surface: 'gateway_requests',
      where: [{ column: 'id', op: 'eq', value: id }],
      limit: 1,
    }),
    fetchRecords({
      surface: 'spans',
      where: [{ column: 'request_id', op: 'eq', value: id }],
      limit: 1000,
    }),
  ]);
  const [request] = requests.records;
  return request ? { request, attempts: attempts.records } : null;
}

/** A request at the gateway: admission, each attempt at a provider, and relaying its answer. */
export function GatewayTrace({ id }: { id: string }) {
  const query = useQuery({
    queryKey: ['observe', 'gateway-request', id],
    ...protectedQueryOptions,
    queryFn: () => fetchRequest(id),
  });
  return (
    <TracePage query={query} id={id}>
      {({ request, attempts }) => {
        const firstByte = numberIn(request, 'first_byte_ms');
        const input = ['fresh_tokens', 'cache_read_tokens', 'cache_write_tokens'].reduce(
          (sum, name) => sum + (numberIn(request, name) ?? 0),
          0,
        );
        return (
          <>
            <Panel title={`Gateway request ${id}`}>
              <Waterfall
                label="Spans of the request"
                totalMs={numberIn(request, 'total_ms') ?? 0}
                spans={gatewaySpans(request, attempts)}
              />
            </Panel>
            <Panel title="Details">
              <Facts
                facts={[
                  ['Outcome', <OutcomeBadge key="outcome" outcome={gatewayOutcome(request)} />],
                  ['Started', formatTime(textIn(request, 'started_at'))],
                  ['Latency', formatMs(numberIn(request, 'total_ms') ?? 0)],
                  ['First byte', firstByte === null ? 'not measured' : `after ${formatMs(firstByte)}`],
                  [
                    'Tokens',
                    `${formatNumber(input)} in, ${formatNumber(numberIn(request, 'completion_tokens') ?? 0)} out`,
                  ],
                  ['Cost', formatNanodollars(textIn(request, 'cost') || '0')],
                  ['Model', textIn(request, 'effective_model')],
                  ['Provider', textIn(request, 'provider')],
                  ['Wire', textIn(request, 'wire')],
                  ['Key', textIn(request, 'key_label') || textIn(request, 'key_id')],
                ]}
              />
              <p className={css['links']}>
                <Link href={transcriptPath(id)}>Recorded content</Link>
                <Link
                  href={explorePath({
                    surface: 'gateway_requests',
                    where: [{ column: 'id', op: 'eq', value: id }],
                  })}
                >
                  All recorded fields
                </Link>
              </p>
            </Panel>
          </>
        );
      }}
    </TracePage>
  );
}
