import { formatTime } from '../../../ui/format.ts';
import { type Column, Empty, Field, Page, Panel } from '../../../ui/index.tsx';
import { useUrlState } from '../../../ui/url-state.ts';
import type { Account, Key } from '../../api.ts';
import css from '../../gateway.module.css';
import { formatCount, formatExactMoney, formatExpiry, formatMoney, keyState } from '../../format.ts';
import { Loaded } from '../../parts/loaded.tsx';
import { SpendMeter } from '../../parts/meter.tsx';
import { AccountName, KeyName, WithId } from '../../parts/names.tsx';
import { byNumber, byText, PagedTable } from '../../parts/paged-table.tsx';
import { StateBadge } from '../../../ui/state-badge.tsx';
import { useAccounts, useKeys, useNames } from '../../queries.ts';
import { NewKey } from './new-key.tsx';

const states = ['active', 'disabled', 'expired', 'revoked'] as const;

/** All keys. */
export function KeyList() {
  const keys = useKeys();
  return (
    <Page
      title="Keys"
      lead="API keys of callers. A change applies to the next request on every gateway of the database."
      tools={<NewKey />}
    >
      <Panel>
        <Loaded read={keys} what="the keys">
          {(list) => <KeyTable keys={list} />}
        </Loaded>
      </Panel>
    </Page>
  );
}

/** @param props.keys all, or those of one account */
function KeyTable({ keys }: { keys: readonly Key[] }) {
  const accounts = new Map(useAccounts().data?.map((account) => [account.id, account]));
  const names = useNames();
  const [state, setState] = useUrlState('state');
  const shown =
    state === '' ? keys : keys.filter((key) => keyState(key, accounts.get(key.account)) === state);
  return (
    <PagedTable
      caption="Keys"
      what="keys"
      rows={shown}
      columns={keyColumns(accounts)}
      keyOf={({ id }) => id}
      textOf={(key) =>
        [key.label, key.id, key.last4, names.account(key.account), key.account, ...(key.models ?? [])].join(
          ' ',
        )
      }
      orders={[
        {
          name: 'created',
          title: 'Newest first',
          compare: (one, other) => other.created_at.localeCompare(one.created_at),
        },
        {
          name: 'spent',
          title: 'Most spent first',
          compare: byNumber(({ spent_nanodollars: spent }) => spent),
        },
        { name: 'label', title: 'Label', compare: byText(({ label }) => label ?? '') },
        {
          name: 'account',
          title: 'Account',
          compare: byText(({ account }) => names.account(account) ?? account),
        },
      ]}
      {...(keys.length === 0
        ? {}
        : {
            filters: (
              <Field label="State">
                {(control) => (
                  <select {...control} value={state} onChange={({ target }) => setState(target.value)}>
                    <option value="">All states</option>
                    {states.map((name) => (
                      <option key={name} value={name}>
                        {name}
                      </option>
                    ))}
                  </select>
                )}
              </Field>
            ),
          })}
      empty={
        keys.length === 0 ? (
          <Empty title="No keys yet.">Create a key, and give it to a caller.</Empty>
        ) : (
          <Empty title={`No key is ${state}.`}>Choose another state.</Empty>
        )
      }
    />
  );
}

/** Columns of a table of keys. */
export const keyColumns = (
  accounts: ReadonlyMap<string, Account>,
  withAccount = true,
): readonly Column<Key>[] => [
  {
    key: 'key',
    head: 'Key',
    cell: (key) => (
      <WithId id={key.id} what={key.label ?? 'the key'}>
        <KeyName id={key.id} />
      </WithId>
    ),
  },
  ...(withAccount
    ? [{ key: 'account', head: 'Account', cell: (key: Key) => <AccountName id={key.account} /> }]
    : []),
  {
    key: 'state',
    head: 'State',
    cell: (key) => <StateBadge state={keyState(key, accounts.get(key.account))} />,
  },
  {
    key: 'spent',
    head: 'Spent',
    cell: (key) =>
      key.cap_nanodollars === null ? (
        <span title={formatExactMoney(key.spent_nanodollars)}>
          {formatMoney(key.spent_nanodollars)}, no cap
        </span>
      ) : (
        <SpendMeter used={key.spent_nanodollars} limit={key.cap_nanodollars} />
      ),
  },
  { key: 'limits', head: 'Limits', cell: (key) => <KeyLimits limits={key} /> },
  { key: 'models', head: 'Models', cell: ({ models }) => models?.join(', ') ?? 'all' },
  {
    key: 'expires',
    head: 'Expires',
    cell: ({ expires_at: at }) =>
      at === null ? 'never' : <span title={formatTime(at)}>{formatExpiry(at)}</span>,
  },
];

/** Limits that the key has of its own. */
export function KeyLimits({
  limits,
}: {
  limits: Pick<Key, 'requests_per_minute' | 'tokens_per_minute' | 'concurrency'>;
}) {
  const { requests_per_minute: rpm, tokens_per_minute: tpm, concurrency } = limits;
  const texts = [
    rpm === null ? [] : [`${formatCount(rpm)} requests/min`],
    tpm === null ? [] : [`${formatCount(tpm)} tokens/min`],
    concurrency === null ? [] : [`${formatCount(concurrency)} concurrent`],
  ].flat();
  return texts.length === 0 ? (
    <span className={css['muted']}>configuration</span>
  ) : (
    <span className={css['stack']}>
      {texts.map((text) => (
        <span key={text} className={css['nowrap']}>
          {text}
        </span>
      ))}
    </span>
  );
}
