import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { Page } from '../../../ui/index.tsx';
import css from '../../gateway.module.css';
import { formatCount, formatExactMoney, formatMoney, utcDay } from '../../format.ts';
import { useRequests, useStatus, useUsage } from '../../queries.ts';
import { BudgetAlerts } from './budget-alerts.tsx';
import { ProviderHealth } from './provider-health.tsx';
import { RecentFailures } from './recent-failures.tsx';
import { RefusedConfiguration } from './refused-configuration.tsx';
import { SpendPanel } from './spend-panel.tsx';

/** Failed requests that are counted; a larger number is shown as this one and more. */
const maxFailures = 1000;

/** What an operator looks at first: spend, failures, and what needs them. */
export function Overview() {
  const today = utcDay();
  const monthStart = `${today.slice(0, 7)}-01`;
  const month = useUsage({ by: 'day', since: monthStart }).data;
  const failed = useRequests({ failed: 'true', since: `${today}T00:00:00Z` }, maxFailures).data?.pages[0];
  const status = useStatus().data;
  const ofToday = month?.data.find(({ day }) => day === today);
  const money = (nano: number | undefined) =>
    month === undefined ? '...' : <span title={formatExactMoney(nano ?? 0)}>{formatMoney(nano ?? 0)}</span>;
  return (
    <Page title="Overview" lead="Spend, failures and health of this gateway. Days and months are in UTC.">
      <dl className={css['tiles']}>
        <Tile
          name="Spend today"
          figure={money(ofToday?.spend_nanodollars)}
          more={month && `${formatCount(ofToday?.requests ?? 0)} requests`}
        />
        <Tile
          name="Spend this month"
          figure={money(month?.total.spend_nanodollars)}
          more={month && `${formatCount(month.total.requests)} requests`}
        />
        <Tile
          name="Failed or refused today"
          figure={failed ? `${formatCount(failed.length)}${failed.length === maxFailures ? '+' : ''}` : '...'}
          more={<Link href={`/receipts?failed=true&since=${today}`}>Show these requests</Link>}
        />
        <Tile
          name="Running now"
          figure={status ? formatCount(status.requests_in_flight) : '...'}
          more={status && `${formatCount(status.open_holds)} open holds`}
        />
      </dl>
      <RefusedConfiguration status={status} withLink />
      <SpendPanel />
      <div className={css['panels']}>
        <BudgetAlerts />
        <ProviderHealth />
      </div>
      <RecentFailures />
    </Page>
  );
}

const Tile = ({ name, figure, more }: { name: string; figure: ReactNode; more?: ReactNode }) => (
  <div className={css['tile']}>
    <dt>{name}</dt>
    <dd className={css['figure']}>{figure}</dd>
    <dd className={css['small']}>{more}</dd>
  </div>
);
