import { Empty, Panel, Table } from '../../../ui/index.tsx';
import { formatRelativeTime } from '../../../ui/format.ts';
import { formatPeriod, usedPart } from '../../format.ts';
import { Loaded } from '../../parts/loaded.tsx';
import { SpendMeter } from '../../parts/meter.tsx';
import { AccountName, KeyName } from '../../parts/names.tsx';
import { useBudgets } from '../../queries.ts';

/** Budgets of which less than this is left are listed. */
const alertAt = 0.8;
const maxShown = 10;

export function BudgetAlerts() {
  return (
    <Panel title="Budget alerts">
      <Loaded read={useBudgets()} what="the budgets">
        {(budgets) => {
          const near = budgets
            .filter((budget) => usedPart(budget) >= alertAt)
            .toSorted((one, other) => usedPart(other) - usedPart(one));
          if (near.length === 0)
            return (
              <Empty
                title={budgets.length === 0 ? 'There are no budgets.' : 'No budget is used by 80 % or more.'}
              >
                {budgets.length === 0
                  ? 'Open an account or a key to set what it may spend in a period.'
                  : `${budgets.length} ${budgets.length === 1 ? 'budget has' : 'budgets have'} room.`}
              </Empty>
            );
          return (
            <>
              <Table
                caption="Budgets that are used by 80 % or more"
                rows={near.slice(0, maxShown)}
                keyOf={({ id }) => id}
                columns={[
                  {
                    key: 'owner',
                    head: 'Owner',
                    cell: ({ owner, owner_id: id }) =>
                      owner === 'key' ? <KeyName id={id} /> : <AccountName id={id} />,
                  },
                  { key: 'period', head: 'Period', cell: formatPeriod },
                  {
                    key: 'used',
                    head: 'Used',
                    cell: (budget) => (
                      <SpendMeter
                        used={budget.spent_nanodollars + budget.held_nanodollars}
                        limit={budget.amount_nanodollars}
                      />
                    ),
                  },
                  {
                    key: 'resets',
                    head: 'Resets',
                    cell: ({ resets_at: at }) => (at === null ? '' : formatRelativeTime(at)),
                  },
                ]}
              />
              {near.length > maxShown && <p>{near.length - maxShown} more: see Accounts and Keys.</p>}
            </>
          );
        }}
      </Loaded>
    </Panel>
  );
}
