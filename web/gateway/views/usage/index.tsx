import { asFault } from '../../../api/fault.ts';
import { Chart } from '../../../ui/chart.tsx';
import { Button, Empty, Field, Page, Panel } from '../../../ui/index.tsx';
import { useUrlState } from '../../../ui/url-state.ts';
import type { Usage } from '../../api.ts';
import css from '../../gateway.module.css';
import { formatCount, formatExactMoney, formatMoney, utcDay } from '../../format.ts';
import { Loaded } from '../../parts/loaded.tsx';
import { AccountName, KeyName } from '../../parts/names.tsx';
import { byNumber, byText, PagedTable } from '../../parts/paged-table.tsx';
import { useAccounts, useNames, useUsage, type UsageParameters } from '../../queries.ts';
import { saveText, toCsv } from './csv.ts';
import { type Grouping, groupings, type Measure, measures, toSeries } from './series.ts';

/** Spend, requests and tokens of a period, by model, key, provider, account or end user. */
export function UsageView() {
  const [range, setRange] = useUrlState('range', '30d');
  const [since, setSince] = useUrlState('since', utcDay(29));
  const [until, setUntil] = useUrlState('until', utcDay());
  const [grouping, setBy] = useUrlState('by', 'model');
  const [measured, setMeasure] = useUrlState('measure', 'spend');
  const [account, setAccount] = useUrlState('account');
  const [below, setBelow] = useUrlState('below');
  const by: Grouping = grouping in groupings ? (grouping as Grouping) : 'model';
  const measure: Measure = measured in measures ? (measured as Measure) : 'spend';
  const accounts = useAccounts().data ?? [];
  const names = useNames();
  const query = {
    ...periodOf(range, since, until),
    account: account === '' ? undefined : account,
    descendants: account !== '' && below === 'true' ? ('true' as const) : undefined,
  };
  const usage = useUsage({ by, ...query });
  const nameOf = (id: string): string => {
    if (by === 'account') return names.account(id) ?? id;
    if (by === 'key') return names.key(id) ?? id;
    return id === '' ? '(none)' : id;
  };
  return (
    <Page
      title="Usage"
      lead="What requests cost, by the UTC day on which they ended. Refused requests are not counted."
      tools={
        <Button
          disabled={usage.data === undefined || usage.data.data.length === 0}
          onClick={() =>
            usage.data &&
            saveText(toCsv(usage.data, by, nameOf), `usage-${by}-${usage.data.since}-${usage.data.until}.csv`)
          }
        >
          Download CSV
        </Button>
      }
    >
      <Panel title="Report">
        <div className={css['filters']}>
          <Field label="Period">
            {(control) => (
              <select {...control} value={range} onChange={({ target }) => setRange(target.value)}>
                {Object.entries(ranges).map(([value, title]) => (
                  <option key={value} value={value}>
                    {title}
                  </option>
                ))}
              </select>
            )}
          </Field>
          {range === 'days' && (
            <>
              <Field label="First day">
                {(control) => (
                  <input
                    {...control}
                    type="date"
                    value={since}
                    onChange={({ target }) => setSince(target.value)}
                  />
                )}
              </Field>
              <Field label="Last day">
                {(control) => (
                  <input
                    {...control}
                    type="date"
                    value={until}
                    onChange={({ target }) => setUntil(target.value)}
                  />
                )}
              </Field>
            </>
          )}
          <Field label="Group by">
            {(control) => (
              <select {...control} value={by} onChange={({ target }) => setBy(target.value)}>
                {Object.entries(groupings).map(([value, title]) => (
                  <option key={value} value={value}>
                    {title}
                  </option>
                ))}
              </select>
            )}
          </Field>
          <Field label="Account">
            {(control) => (
              <select {...control} value={account} onChange={({ target }) => setAccount(target.value)}>
                <option value="">All accounts</option>
                {accounts.map(({ id, name }) => (
                  <option key={id} value={id}>
                    {name}
                  </option>
                ))}
              </select>
            )}
          </Field>
          <Field label="Measure of the chart">
            {(control) => (
              <select {...control} value={measure} onChange={({ target }) => setMeasure(target.value)}>
                {Object.entries(measures).map(([value, title]) => (
                  <option key={value} value={value}>
                    {title}
                  </option>
                ))}
              </select>
            )}
          </Field>
          {account !== '' && (
            <label className={css['check']}>
              <input
                type="checkbox"
                checked={below === 'true'}
                onChange={({ target }) => setBelow(target.checked ? 'true' : '')}
              />
              With accounts below
            </label>
          )}
        </div>
        <Loaded read={usage} what="the usage">
          {({ total }) => (
            <p role="status">
              {formatCount(total.requests)} requests, {formatCount(total.prompt_tokens)} prompt tokens,{' '}
              {formatCount(total.completion_tokens)} completion tokens,{' '}
              <strong title={formatExactMoney(total.spend_nanodollars)}>
                {formatMoney(total.spend_nanodollars)}
              </strong>
            </p>
          )}
        </Loaded>
      </Panel>
      <OverTime by={by} measure={measure} query={query} nameOf={nameOf} />
      <Panel title={`By ${groupings[by].toLowerCase()}`}>
        <Loaded read={usage} what="the usage">
          {(report) => <UsageTable usage={report} by={by} nameOf={nameOf} />}
        </Loaded>
      </Panel>
    </Page>
  );
}

const ranges = {
  '1d': 'Today',
  '7d': 'Last 7 days',
  '30d': 'Last 30 days',
  '90d': 'Last 90 days',
  month: 'This month',
  'last-month': 'Last month',
  days: 'From day to day',
} as const;

function periodOf(
  range: string,
  since: string,
  until: string,
): { since: string; until?: string | undefined } {
  if (range === 'days') return { since, until };
  const today = utcDay();
  if (range === 'month') return { since: today.slice(0, 7) };
  if (range === 'last-month') {
    const [year = 0, month = 0] = today.split('-').map(Number);
    const last = new Date(Date.UTC(year, month - 2, 1)).toISOString().slice(0, 7);
    return { since: last, until: last };
  }
  return { since: range in ranges ? range : '30d' };
}

/** The largest groups by day; all together where a report of that many lines is refused. */
function OverTime(props: {
  by: Grouping;
  measure: Measure;
  query: Omit<UsageParameters, 'by'>;
  nameOf: (id: string) => string;
}) {
  const { by, measure, query, nameOf } = props;
  const grouped = useUsage({ by: `day,${by}`, ...query });
  const isTooLong = asFault(grouped.error).code === 'too_many_lines';
  const whole = useUsage({ by: 'day', ...query });
  return (
    <Panel title="Over time">
      {isTooLong && <p>There are too many groups for a chart of each: it shows all together.</p>}
      <Loaded read={isTooLong ? whole : grouped} what="the usage by day">
        {(usage) => (
          <Chart
            label={`${measures[measure]} of each day${isTooLong ? '' : ` by ${groupings[by].toLowerCase()}`}`}
            {...toSeries(usage, measure, isTooLong ? undefined : by, nameOf)}
            xKind="time"
            xLabel="Day"
            yLabel={measures[measure]}
            startsAtZero
          />
        )}
      </Loaded>
    </Panel>
  );
}

function UsageTable({ usage, by, nameOf }: { usage: Usage; by: Grouping; nameOf: (id: string) => string }) {
  const total = usage.total.spend_nanodollars;
  return (
    <PagedTable
      caption={`Usage by ${groupings[by].toLowerCase()}`}
      what={by === 'tag' ? 'end users' : `${by}s`}
      rows={usage.data}
      keyOf={(line) => line[by] ?? ''}
      textOf={(line) => `${line[by] ?? ''} ${nameOf(line[by] ?? '')}`}
      empty={
        <Empty title="No request ended in this period.">
          Choose a longer period, or send a request with a key.
        </Empty>
      }
      orders={[
        { name: 'spend', title: 'Most spent first', compare: byNumber((line) => line.spend_nanodollars) },
        { name: 'requests', title: 'Most requests first', compare: byNumber((line) => line.requests) },
        { name: 'name', title: 'Name', compare: byText((line) => nameOf(line[by] ?? '')) },
      ]}
      columns={[
        {
          key: 'group',
          head: groupings[by],
          cell: (line) => {
            const id = line[by] ?? '';
            if (by === 'account') return <AccountName id={id} />;
            return by === 'key' ? <KeyName id={id} /> : nameOf(id);
          },
        },
        { key: 'requests', head: 'Requests', number: true, cell: (line) => formatCount(line.requests) },
        {
          key: 'prompt',
          head: 'Prompt tokens',
          number: true,
          cell: (line) => formatCount(line.prompt_tokens),
        },
        { key: 'cached', head: 'Cached', number: true, cell: (line) => formatCount(line.cached_tokens) },
        {
          key: 'completion',
          head: 'Completion tokens',
          number: true,
          cell: (line) => formatCount(line.completion_tokens),
        },
        {
          key: 'spend',
          head: 'Spend',
          number: true,
          cell: (line) => (
            <span title={formatExactMoney(line.spend_nanodollars)}>
              {formatMoney(line.spend_nanodollars)}
            </span>
          ),
        },
        {
          key: 'share',
          head: 'Share',
          number: true,
          cell: (line) => (total === 0 ? '' : `${((line.spend_nanodollars / total) * 100).toFixed(1)} %`),
        },
      ]}
    />
  );
}
