import { useState } from 'react';
import { Link } from 'wouter';
import { CopyValue } from '../../../ui/copy.tsx';
import { formatTime } from '../../../ui/format.ts';
import { Button, Confirm, Empty, Facts, FaultNote, Page, Panel } from '../../../ui/index.tsx';
import type { Key } from '../../api.ts';
import css from '../../gateway.module.css';
import { formatExactMoney, formatMoney, keyState } from '../../format.ts';
import { FormDialog } from '../../parts/form-dialog.tsx';
import { Loaded } from '../../parts/loaded.tsx';
import { SpendMeter } from '../../parts/meter.tsx';
import { AccountName } from '../../parts/names.tsx';
import { StateBadge } from '../../../ui/state-badge.tsx';
import { useAccounts, useChange, useKeys, useRequests } from '../../queries.ts';
import { BudgetPanel } from '../accounts/budget-panel.tsx';
import { RequestTable } from '../receipts/request-table.tsx';
import { changeKey, revokeKey, type Settings, settingsOf, toBody, useSettingFields } from './key-form.tsx';
import { KeyLimits } from './key-list.tsx';

/** One key: what it may do, what it spent, and its latest requests. */
export function KeyPage({ id }: { id: string }) {
  return (
    <Loaded read={useKeys()} what="the key">
      {(keys) => {
        const key = keys.find((one) => one.id === id);
        return key ? (
          <KeyDetails apiKey={key} />
        ) : (
          <Page title="Key not found">
            <Empty title={`There is no key ${id}.`}>
              <Link href="/keys">Show all keys</Link>
            </Empty>
          </Page>
        );
      }}
    </Loaded>
  );
}

function KeyDetails({ apiKey }: { apiKey: Key }) {
  const account = useAccounts().data?.find(({ id }) => id === apiKey.account);
  const state = keyState(apiKey, account);
  const requests = useRequests({ key: apiKey.id }, 20);
  return (
    <Page
      title={apiKey.label ?? `Key ...${apiKey.last4}`}
      lead={<Link href="/keys">All keys</Link>}
      tools={<KeyActions apiKey={apiKey} />}
    >
      <div className={css['panels']}>
        <Panel title="Settings">
          <Facts
            facts={[
              ['Id', <CopyValue key="id" value={apiKey.id} label="the id of the key" />],
              ['State', <StateBadge key="state" state={state} />],
              ['Account', <AccountName key="account" id={apiKey.account} />],
              ['Ends with', <code key="last4">...{apiKey.last4}</code>],
              [
                'Spent',
                apiKey.cap_nanodollars === null ? (
                  <span key="spent" title={formatExactMoney(apiKey.spent_nanodollars)}>
                    {formatMoney(apiKey.spent_nanodollars)}, no cap
                  </span>
                ) : (
                  <SpendMeter key="spent" used={apiKey.spent_nanodollars} limit={apiKey.cap_nanodollars} />
                ),
              ],
              ['Held', formatMoney(apiKey.held_nanodollars)],
              ['Limits', <KeyLimits key="limits" limits={apiKey} />],
              ['Models', apiKey.models?.join(', ') ?? 'all'],
              ['Created', formatTime(apiKey.created_at)],
              ['Expires', apiKey.expires_at === null ? 'never' : formatTime(apiKey.expires_at)],
              ...(apiKey.disabled_at === null ? [] : [['Disabled', formatTime(apiKey.disabled_at)] as const]),
              ...(apiKey.revoked_at === null ? [] : [['Revoked', formatTime(apiKey.revoked_at)] as const]),
              ...(account && account.disabled_at !== null
                ? [['Account disabled', formatTime(account.disabled_at)] as const]
                : []),
            ]}
          />
        </Panel>
        <BudgetPanel owner={{ key: apiKey.id }} />
      </div>
      <Panel
        title="Latest requests"
        tools={<Link href={`/receipts?key=${encodeURIComponent(apiKey.id)}`}>All requests of the key</Link>}
      >
        <Loaded read={requests} what="the requests">
          {({ pages }) =>
            pages[0] === undefined || pages[0].length === 0 ? (
              <Empty title="No requests yet.">Send one with this key; its receipt is listed here.</Empty>
            ) : (
              <RequestTable caption="Latest requests of the key" requests={pages[0]} withKey={false} />
            )
          }
        </Loaded>
      </Panel>
    </Page>
  );
}

function KeyActions({ apiKey }: { apiKey: Key }) {
  const [open, setOpen] = useState<'change' | 'revoke'>();
  const fields = useSettingFields();
  const before = settingsOf(apiKey);
  const change = useChange((values: Settings) => changeKey(apiKey.id, toBody(values, before)));
  const disable = useChange((disabled: boolean) => changeKey(apiKey.id, { disabled }));
  const revoke = useChange(() => revokeKey(apiKey.id));
  if (apiKey.revoked_at !== null) return null;
  const isDisabled = apiKey.disabled_at !== null;
  return (
    <>
      <Button onClick={() => setOpen('change')}>Change</Button>
      <Button busy={disable.isPending} onClick={() => disable.mutate(!isDisabled)}>
        {isDisabled ? 'Enable' : 'Disable'}
      </Button>
      <Button kind="danger" onClick={() => setOpen('revoke')}>
        Revoke
      </Button>
      {disable.isError && <FaultNote error={disable.error} />}
      {open === 'change' && (
        <FormDialog
          title="Change the key"
          action="Save"
          fields={fields}
          initial={before}
          submit={(values) => change.mutateAsync(values)}
          onClose={() => setOpen(undefined)}
        />
      )}
      <Confirm
        title="Revoke the key?"
        isOpen={open === 'revoke'}
        action="Revoke"
        busy={revoke.isPending}
        onConfirm={() => revoke.mutate(undefined, { onSuccess: () => setOpen(undefined) })}
        onClose={() => setOpen(undefined)}
      >
        <p>
          Requests with it are refused from now on. This cannot be undone: to stop a key for a while, disable
          it.
        </p>
        {revoke.isError && <FaultNote error={revoke.error} />}
      </Confirm>
    </>
  );
}
