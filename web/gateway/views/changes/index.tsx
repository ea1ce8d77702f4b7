import { formatRelativeTime, formatTime } from '../../../ui/format.ts';
import { Button, Empty, Page, Panel } from '../../../ui/index.tsx';
import { useUrlState } from '../../../ui/url-state.ts';
import type { Change } from '../../api.ts';
import css from '../../gateway.module.css';
import { formatCount } from '../../format.ts';
import { Loaded } from '../../parts/loaded.tsx';
import { AccountName, KeyName, WithId } from '../../parts/names.tsx';
import { PagedTable } from '../../parts/paged-table.tsx';
import { useChanges, useNames } from '../../queries.ts';
import { changedMembers } from './changed-members.ts';

/** Entries that are read at first, and the most that the gateway lists. */
const [firstLimit, maxLimit] = [500, 10_000];

/** Who changed what. */
export function Changes() {
  const [limitText, setLimit] = useUrlState('limit', String(firstLimit));
  const limit = Math.min(maxLimit, Math.max(1, Math.trunc(Number(limitText)) || firstLimit));
  const changes = useChanges(limit);
  const names = useNames();
  return (
    <Page
      title="Changes"
      lead="Who changed which account, key, budget or provider, through this page, the admin API or a command; also reloads and refused tokens."
    >
      <Panel>
        <Loaded read={changes} what="the log of changes">
          {(list) => (
            <>
              <PagedTable
                caption="Changes"
                what="changes"
                rows={list}
                keyOf={({ id }) => id}
                textOf={({ actor, action, subject, account, before, after }) =>
                  [
                    actor,
                    action,
                    subject,
                    names.key(subject) ?? names.account(subject),
                    account === null ? '' : `${account} ${names.account(account) ?? ''}`,
                    JSON.stringify(before ?? {}),
                    JSON.stringify(after ?? {}),
                  ].join(' ')
                }
                empty={
                  <Empty title="No changes yet.">
                    The first account or key that you create is the first entry.
                  </Empty>
                }
                columns={[
                  {
                    key: 'at',
                    head: 'Time',
                    cell: ({ at }) => (
                      <span className={css['nowrap']} title={formatTime(at)}>
                        {formatRelativeTime(at)}
                      </span>
                    ),
                  },
                  { key: 'actor', head: 'By', cell: ({ actor }) => actor },
                  { key: 'action', head: 'Change', cell: ({ action }) => action },
                  { key: 'subject', head: 'Target', cell: (change) => <Subject change={change} /> },
                  {
                    key: 'account',
                    head: 'Account',
                    cell: ({ account }) => (account === null ? '' : <AccountName id={account} />),
                  },
                  { key: 'values', head: 'Values', cell: (change) => <Values change={change} /> },
                ]}
              />
              {list.length === limit && limit < maxLimit && (
                <div>
                  <Button
                    busy={changes.isFetching}
                    onClick={() => setLimit(String(Math.min(maxLimit, limit * 4)))}
                  >
                    Load older changes than these {formatCount(limit)}
                  </Button>
                </div>
              )}
            </>
          )}
        </Loaded>
      </Panel>
    </Page>
  );
}

/** What was changed: its name where it has one, and its id. */
function Subject({ change: { subject } }: { change: Change }) {
  const names = useNames();
  if (names.key(subject) !== undefined)
    return (
      <WithId id={subject} what="the key">
        <KeyName id={subject} />
      </WithId>
    );
  if (names.account(subject) !== undefined)
    return (
      <WithId id={subject} what="the account">
        <AccountName id={subject} />
      </WithId>
    );
  return <span>{subject}</span>;
}

function Values({ change }: { change: Change }) {
  const names = useNames();
  return (
    <span className={css['change']}>
      {changedMembers(change, names.account).map(({ name, before, after }) => (
        <span key={name}>
          {name}: {before !== undefined && <del>{before}</del>}
          {before !== undefined && after !== undefined && ' → '}
          {after !== undefined && <ins>{after}</ins>}
        </span>
      ))}
    </span>
  );
}
