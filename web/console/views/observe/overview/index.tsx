import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { formatNumber, formatTime } from '../../../../ui/format.ts';
import { Button, Empty, Loading, Panel } from '../../../../ui/index.tsx';
import { useUrlState } from '../../../../ui/url-state.ts';
import { protectedQueryOptions, ProtectedRouteFault } from '../../../shell/protected-route.tsx';
import { Breakdown, Breakdowns } from './breakdowns.tsx';
import { Charts } from './charts.tsx';
import { fetchFigures, type Figures, type Percentiles } from './figures.ts';
import css from './overview.module.css';
import { formatOptionalMs } from './percentiles.ts';
import { RequestLists } from './request-lists.tsx';
import { defaultRange, timeRanges } from './time-ranges.ts';

/** What the host did in a time range: figures, charts, and the requests behind them. */
export function Overview() {
  const [rangeName, setRange] = useUrlState('range', defaultRange);
  const range = timeRanges.find(({ name }) => name === rangeName) ?? timeRanges[2];
  const figures = useQuery({
    queryKey: ['observe', 'overview', range?.name],
    enabled: range !== undefined,
    ...protectedQueryOptions,
    queryFn: async () => (range ? await fetchFigures(range) : undefined),
  });
  if (!range) return null;
  return (
    <>
      <div className={css['head']}>
        <div role="group" aria-label="Time range" className={css['ranges']}>
          {timeRanges.map(({ name, title }) => (
            <Button key={name} aria-pressed={name === range.name} onClick={() => setRange(name)}>
              {title}
            </Button>
          ))}
        </div>
        <span className={css['muted']}>{figures.data && `As of ${formatTime(figures.data.asOf)}`}</span>
        <Button busy={figures.isFetching} onClick={() => void figures.refetch()}>
          Refresh
        </Button>
      </div>
      {figures.isPending && <Loading what="the figures" />}
      {figures.isError && (
        <ProtectedRouteFault
          what="the recorded activity"
          error={figures.error}
          retry={() => void figures.refetch()}
        />
      )}
      {figures.data?.all.requests === 0 && (
        <Panel>
          <Empty title={range.since === undefined ? 'No requests yet.' : 'No requests in this time range.'}>
            {range.since === undefined ? (
              <>
                Send one in the <Link href="/console/chat">chat</Link>, or from a program: the{' '}
                <Link href="/console">home page</Link> shows how.
              </>
            ) : (
              'Choose a longer time range, or send a request in the chat.'
            )}
          </Empty>
        </Panel>
      )}
      {figures.data && figures.data.all.requests > 0 && (
        <>
          <Totals figures={figures.data.all} />
          <Charts overTime={figures.data.overTime}>
            <Breakdown title="By outcome" head="Outcome" groups={figures.data.byOutcome} isOutcome />
          </Charts>
          <Breakdowns figures={figures.data} />
        </>
      )}
      <RequestLists range={range} asOf={figures.data?.asOf} />
    </>
  );
}

function Totals({ figures }: { figures: Figures }) {
  const { requests, errors, cancelled, promptTokens, completionTokens, firstToken, total, queue } = figures;
  const share = (count: number) => `${formatNumber((count / requests) * 100)} %`;
  const single: readonly (readonly [name: string, value: string, note: string])[] = [
    ['Requests', formatNumber(requests), 'with those of agents'],
    ['Errors', formatNumber(errors), `${share(errors)}: refused or failed`],
    ['Cancelled', formatNumber(cancelled), `${share(cancelled)}: by the client`],
    ['Tokens in', formatNumber(promptTokens), 'prompt tokens'],
    ['Tokens out', formatNumber(completionTokens), 'completion tokens'],
  ];
  const ranked: readonly (readonly [name: string, value: Percentiles])[] = [
    ['Time to first token', firstToken],
    ['Latency', total],
    ['Time in the queue', queue],
  ];
  return (
    <section aria-label="Totals">
      <dl className={css['totals']}>
        {single.map(([name, value, note]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>
              <strong>{value}</strong> <small>{note}</small>
            </dd>
          </div>
        ))}
        {ranked.map(([name, { p50, p95, p99 }]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>
              <strong>{formatOptionalMs(p50)}</strong>{' '}
              <small>
                p50; p95 {formatOptionalMs(p95)}, p99 {formatOptionalMs(p99)}
              </small>
            </dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
