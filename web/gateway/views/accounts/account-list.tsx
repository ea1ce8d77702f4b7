import { Empty, Page, Panel } from '../../../ui/index.tsx';
import type { Budget } from '../../api.ts';
import css from '../../gateway.module.css';
import { formatExactMoney, formatMoney, formatPeriod, usedPart } from '../../format.ts';
import { Loaded } from '../../parts/loaded.tsx';
import { SpendMeter } from '../../parts/meter.tsx';
import { AccountName, WithId } from '../../parts/names.tsx';
import { PagedTable } from '../../parts/paged-table.tsx';
import { StateBadge } from '../../../ui/state-badge.tsx';
import { useAccounts, useBudgets, useKeys } from '../../queries.ts';
import { NewAccount } from './account-form.tsx';
import { toTree } from './tree.ts';

/** Accounts with those below them. */
export function AccountList() {
  const budgets = Map.groupBy(
    (useBudgets().data ?? []).filter(({ owner }) => owner === 'account'),
    ({ owner_id: id }) => id,
  );
  const keys = Map.groupBy(useKeys().data ?? [], ({ account }) => account);
  return (
    <Page
      title="Accounts"
      lead="Accounts and the teams below them. The budgets of an account also limit all accounts below it."
      tools={<NewAccount />}
    >
      <Panel>
        <Loaded read={useAccounts()} what="the accounts">
          {(accounts) => (
            <PagedTable
              caption="Accounts"
              what="accounts"
              rows={toTree(accounts)}
              keyOf={({ account }) => account.id}
              textOf={({ account, path }) => [account.id, ...path].join(' ')}
              empty={<Empty title="No accounts yet.">Create an account, then a key for it.</Empty>}
              columns={[
                {
                  key: 'name',
                  head: 'Account',
                  cell: ({ account, depth }) => (
                    <span className={css['depth']} style={{ paddingInlineStart: `${depth * 20}px` }}>
                      <WithId id={account.id} what={account.name}>
                        <AccountName id={account.id} />
                      </WithId>
                    </span>
                  ),
                },
                {
                  key: 'state',
                  head: 'State',
                  cell: ({ account }) => (
                    <StateBadge state={account.disabled_at === null ? 'active' : 'disabled'} />
                  ),
                },
                {
                  key: 'balance',
                  head: 'Balance',
                  number: true,
                  cell: ({ account: { balance } }) => (
                    <span title={formatExactMoney(balance.remaining_nanodollars)}>
                      {formatMoney(balance.remaining_nanodollars)}
                    </span>
                  ),
                },
                {
                  key: 'held',
                  head: 'Held',
                  number: true,
                  cell: ({ account }) => formatMoney(account.held_nanodollars),
                },
                {
                  key: 'keys',
                  head: 'Keys',
                  number: true,
                  cell: ({ account }) =>
                    (keys.get(account.id) ?? []).filter(({ revoked_at: revoked }) => revoked === null).length,
                },
                {
                  key: 'budget',
                  head: 'Budgets',
                  cell: ({ account }) => <Budgets budgets={budgets.get(account.id) ?? []} />,
                },
              ]}
            />
          )}
        </Loaded>
      </Panel>
    </Page>
  );
}

/** The fullest budget first. */
const Budgets = ({ budgets }: { budgets: readonly Budget[] }) => (
  <span className={css['stack']}>
    {budgets
      .toSorted((one, other) => usedPart(other) - usedPart(one))
      .map((budget) => (
        <span key={budget.id} className={css['stack']}>
          <span className={css['small']}>{formatPeriod(budget)}</span>
          <SpendMeter
            used={budget.spent_nanodollars + budget.held_nanodollars}
            limit={budget.amount_nanodollars}
          />
        </span>
      ))}
  </span>
);
