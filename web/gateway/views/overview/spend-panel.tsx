import { Link } from 'wouter';
import { Chart } from '../../../ui/chart.tsx';
import { Panel } from '../../../ui/index.tsx';
import { formatMoney } from '../../format.ts';
import { Loaded } from '../../parts/loaded.tsx';
import { useUsage } from '../../queries.ts';
import { daysOf } from '../usage/series.ts';

/** Spend of the last 30 days, by day. */
export function SpendPanel() {
  const usage = useUsage({ by: 'day', since: '30d' });
  return (
    <Panel
      title="Spend of the last 30 days"
      tools={<Link href="/usage">Usage by model, key or account</Link>}
    >
      <Loaded read={usage} what="the usage">
        {({ since, until, data }) => {
          const days = daysOf(since, until);
          const spend = new Map(data.map((line) => [line.day, line.spend_nanodollars]));
          return (
            <Chart
              label="Spend of each day in US dollars"
              x={days.map((day) => Date.parse(day))}
              rowNames={days}
              xKind="time"
              xLabel="Day"
              yLabel="Spend, $"
              height={200}
              series={[
                { name: 'Spend', draw: 'bars', values: days.map((day) => (spend.get(day) ?? 0) / 1e9) },
              ]}
              describe={(_, index) => `${days[index]}: ${formatMoney(spend.get(days[index] ?? '') ?? 0)}`}
            />
          );
        }}
      </Loaded>
    </Panel>
  );
}
