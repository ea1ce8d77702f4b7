import { useState } from 'react';
import { Link } from 'wouter';
import { CopyValue } from '../../../ui/copy.tsx';
import { formatTime } from '../../../ui/format.ts';
import { Button, Empty, Facts, FaultNote, Page, Panel, Table } from '../../../ui/index.tsx';
import type { Account } from '../../api.ts';
import css from '../../gateway.module.css';
import { formatExactMoney, formatMoney } from '../../format.ts';
import { Loaded } from '../../parts/loaded.tsx';
import { AccountName } from '../../parts/names.tsx';
import { StateBadge } from '../../../ui/state-badge.tsx';
import { useAccounts, useChange, useKeys } from '../../queries.ts';
import { keyColumns } from '../keys/key-list.tsx';
import { NewKey } from '../keys/new-key.tsx';
import { AddCredits, ChangeAccount, NewAccount, setDisabled } from './account-form.tsx';
import { BudgetPanel } from './budget-panel.tsx';

/** Keys that an account's page lists; the view of all keys has the rest. */
const shownKeys = 50;

/** One account: its balance, budgets, keys and the accounts below it. */
export function AccountPage({ id }: { id: string }) {
  return (
    <Loaded read={useAccounts()} what="the account">
      {(accounts) => {
        const account = accounts.find((one) => one.id === id);
        return account ? (
          <AccountDetails account={account} accounts={accounts} />
        ) : (
          <Page title="Account not found">
            <Empty title={`There is no account ${id}.`}>
              <Link href="/accounts">Show all accounts</Link>
            </Empty>
          </Page>
        );
      }}
    </Loaded>
  );
}

function AccountDetails({ account, accounts }: { account: Account; accounts: readonly Account[] }) {
  const [open, setOpen] = useState<'change' | 'credits'>();
  const disable = useChange((disabled: boolean) => setDisabled(account, disabled));
  const isDisabled = account.disabled_at !== null;
  const below = accounts.filter(({ parent }) => parent === account.id);
  const parentName = accounts.find(({ id }) => id === account.parent)?.name ?? '';
  const { balance } = account;
  const money = (nano: number) => <span title={formatExactMoney(nano)}>{formatMoney(nano)}</span>;
  return (
    <Page
      title={account.name}
      lead={<Link href="/accounts">All accounts</Link>}
      tools={
        <>
          <Button kind="primary" onClick={() => setOpen('credits')}>
            Add credits
          </Button>
          <Button onClick={() => setOpen('change')}>Change</Button>
          <Button busy={disable.isPending} onClick={() => disable.mutate(!isDisabled)}>
            {isDisabled ? 'Enable' : 'Disable'}
          </Button>
        </>
      }
    >
      {disable.isError && <FaultNote error={disable.error} />}
      <div className={css['panels']}>
        <Panel title="Balance">
          <Facts
            facts={[
              ['Id', <CopyValue key="id" value={account.id} label="the id of the account" />],
              ['State', <StateBadge key="state" state={isDisabled ? 'disabled' : 'active'} />],
              [
                'Parent account',
                account.parent === null ? 'none' : <AccountName key="parent" id={account.parent} />,
              ],
              ['Balance', money(balance.remaining_nanodollars)],
              ['of it credits', money(balance.credits_remaining_nanodollars)],
              ['of it included', money(balance.allowance_remaining_nanodollars)],
              ['Held', money(account.held_nanodollars)],
              ['Created', formatTime(account.created_at)],
              ...(account.disabled_at === null
                ? []
                : [['Disabled', formatTime(account.disabled_at)] as const]),
            ]}
          />
          <p>
            <Link href={`/usage?account=${encodeURIComponent(account.id)}&by=model`}>
              Usage of the account
            </Link>
          </p>
        </Panel>
        <BudgetPanel owner={{ account: account.id }} />
      </div>
      <AccountKeys account={account} />
      <Panel
        title="Accounts below"
        tools={<NewAccount parent={account.name} title="Create an account below" />}
      >
        {below.length === 0 ? (
          <Empty title="No accounts below.">
            A team below this account has its own credits and keys, within the budgets of both.
          </Empty>
        ) : (
          <Table
            caption="Accounts below"
            rows={below}
            keyOf={({ id }) => id}
            columns={[
              { key: 'name', head: 'Account', cell: ({ id }) => <AccountName id={id} /> },
              {
                key: 'state',
                head: 'State',
                cell: (one) => <StateBadge state={one.disabled_at === null ? 'active' : 'disabled'} />,
              },
              {
                key: 'balance',
                head: 'Balance',
                number: true,
                cell: (one) => money(one.balance.remaining_nanodollars),
              },
            ]}
          />
        )}
      </Panel>
      {open === 'credits' && <AddCredits account={account} onClose={() => setOpen(undefined)} />}
      {open === 'change' && (
        <ChangeAccount account={account} parentName={parentName} onClose={() => setOpen(undefined)} />
      )}
    </Page>
  );
}

function AccountKeys({ account }: { account: Account }) {
  return (
    <Panel title="Keys" tools={<NewKey account={account.name} />}>
      <Loaded read={useKeys()} what="the keys">
        {(keys) => {
          const own = keys.filter((key) => key.account === account.id);
          if (own.length === 0)
            return <Empty title="The account has no key.">Create a key, and give it to a caller.</Empty>;
          return (
            <>
              <Table
                caption="Keys of the account"
                rows={own.slice(0, shownKeys)}
                keyOf={({ id }) => id}
                columns={keyColumns(new Map([[account.id, account]]), false)}
              />
              {own.length > shownKeys && (
                <p>
                  {own.length - shownKeys} more:{' '}
                  <Link href={`/keys?q=${encodeURIComponent(account.id)}`}>all keys of the account</Link>
                </p>
              )}
            </>
          );
        }}
      </Loaded>
    </Panel>
  );
}
