import { useState } from 'react';
import { Route, Switch, useLocation } from 'wouter';
import { Button, Empty, Field, Page, Panel } from '../../../ui/index.tsx';
import { useUrlState } from '../../../ui/url-state.ts';
import css from '../../gateway.module.css';
import { formatCount } from '../../format.ts';
import { Loaded } from '../../parts/loaded.tsx';
import { useAccounts, useNames, useRequests } from '../../queries.ts';
import { ReceiptPage } from './receipt-page.tsx';
import { RequestTable } from './request-table.tsx';

/** Requests that ended, and what became of each. */
export function Receipts() {
  return (
    <Switch>
      <Route path="/receipts/:id">{({ id }) => <ReceiptPage id={decodeURIComponent(id)} />}</Route>
      <Route>
        <RequestList />
      </Route>
    </Switch>
  );
}

function RequestList() {
  const [failed, setFailed] = useUrlState('failed');
  const [account, setAccount] = useUrlState('account');
  const [key, setKey] = useUrlState('key');
  const [since, setSince] = useUrlState('since');
  const accounts = useAccounts().data ?? [];
  const names = useNames();
  const requests = useRequests({
    failed: failed === 'true' ? 'true' : undefined,
    account: account === '' ? undefined : account,
    key: key === '' ? undefined : key,
    since: since === '' ? undefined : `${since}T00:00:00Z`,
  });
  return (
    <Page
      title="Receipts"
      lead="Requests that ended, the newest first, and what became of each. Requests of archived days are in their files only."
    >
      <Panel title="Find a request">
        <FindRequest />
      </Panel>
      <Panel title="Requests">
        <div className={css['filters']}>
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
          <Field label="Ended on or after (UTC)">
            {(control) => (
              <input
                {...control}
                type="date"
                value={since}
                onChange={({ target }) => setSince(target.value)}
              />
            )}
          </Field>
          <label className={css['check']}>
            <input
              type="checkbox"
              checked={failed === 'true'}
              onChange={({ target }) => setFailed(target.checked ? 'true' : '')}
            />
            Failed only
          </label>
          {key !== '' && (
            <Button onClick={() => setKey('')}>Key {names.key(key) ?? key}: show all keys</Button>
          )}
        </div>
        <Loaded read={requests} what="the requests">
          {({ pages }) => {
            const all = pages.flat();
            if (all.length === 0)
              return (
                <Empty title="No request is listed.">
                  {failed === 'true' || account !== '' || key !== '' || since !== ''
                    ? 'Choose other filters.'
                    : 'Send a request with a key: it is listed when it ends.'}
                </Empty>
              );
            return (
              <>
                <RequestTable caption="Requests" requests={all} />
                <div className={css['pages']}>
                  <span className={css['muted']} role="status">
                    {formatCount(all.length)} requests{requests.hasNextPage ? ' so far' : ''}
                  </span>
                  {requests.hasNextPage && (
                    <Button busy={requests.isFetchingNextPage} onClick={() => void requests.fetchNextPage()}>
                      Load more
                    </Button>
                  )}
                </div>
              </>
            );
          }}
        </Loaded>
      </Panel>
    </Page>
  );
}

/** Opens the receipt of a request by its id. */
function FindRequest() {
  const [id, setId] = useState('');
  const [, navigate] = useLocation();
  return (
    <form
      className={css['form']}
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        if (id.trim() !== '') navigate(`/receipts/${encodeURIComponent(id.trim())}`);
      }}
    >
      <Field
        label="Request id"
        hint="The header x-svc-request-id of its answer. Requests that still run are found, too."
      >
        {(control) => (
          <input
            {...control}
            autoComplete="off"
            spellCheck={false}
            placeholder="req_..."
            value={id}
            onChange={({ target }) => setId(target.value)}
          />
        )}
      </Field>
      <div>
        <Button type="submit" disabled={id.trim() === ''}>
          Show the receipt
        </Button>
      </div>
    </form>
  );
}
