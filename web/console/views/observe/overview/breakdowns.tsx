import { formatNumber } from '../../../../ui/format.ts';
import { Panel, Table } from '../../../../ui/index.tsx';
import { OutcomeBadge } from '../outcome-badge.tsx';
import type { GroupFigures, OverviewFigures } from './figures.ts';
import css from './overview.module.css';
import { formatOptionalMs } from './percentiles.ts';

/** The figures by model and by wire. */
export function Breakdowns({ figures }: { figures: OverviewFigures }) {
  return (
    <div className={css['breakdowns']}>
      <Breakdown title="By model" head="Model" groups={figures.byModel} />
      <Breakdown title="By wire" head="Wire" groups={figures.byWire} />
    </div>
  );
}

/** The figures of each value of a column. */
export function Breakdown(props: {
  title: string;
  head: string;
  groups: readonly GroupFigures[];
  isOutcome?: boolean;
}) {
  const { title, head, groups, isOutcome } = props;
  return (
    <Panel title={title}>
      <Table
        caption={`Requests ${title.toLowerCase()}`}
        rows={groups}
        keyOf={({ name }) => name}
        filter={{ what: 'groups', textOf: ({ name }) => name }}
        columns={[
          {
            key: 'name',
            head,
            cell: ({ name }) => (isOutcome ? <OutcomeBadge outcome={name} /> : name || 'none'),
          },
          {
            key: 'requests',
            head: 'Requests',
            number: true,
            cell: ({ requests }) => formatNumber(requests),
          },
          ...(isOutcome
            ? []
            : [
                {
                  key: 'errors',
                  head: 'Errors',
                  number: true,
                  cell: ({ errors }: GroupFigures) => formatNumber(errors),
                },
                {
                  key: 'tokens',
                  head: 'Tokens in, out',
                  number: true,
                  cell: ({ promptTokens, completionTokens }: GroupFigures) =>
                    `${formatNumber(promptTokens)}, ${formatNumber(completionTokens)}`,
                },
              ]),
          {
            key: 'latency',
            head: 'Latency p50, p95',
            number: true,
            cell: ({ total }) => `${formatOptionalMs(total.p50)}, ${formatOptionalMs(total.p95)}`,
          },
        ]}
      />
    </Panel>
  );
}
