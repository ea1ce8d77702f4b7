import { CodeBlock, CopyValue } from '../../../ui/copy.tsx';
import { formatRelativeTime, formatTime } from '../../../ui/format.ts';
import { ProtectedRouteFault } from '../../shell/protected-route.tsx';
import { Empty, Loading, Panel, Table } from '../../../ui/index.tsx';
import { useGrants } from './recorder.ts';
import css from './recorder.module.css';
import { StateBadge } from '../../../ui/state-badge.tsx';

/** Read and write grants. They are created only on the command line, so the bearer token cannot create more. */
export function Grants() {
  const grants = useGrants();
  if (grants.isPending) return <Loading what="the grants" />;
  if (grants.isError)
    return <ProtectedRouteFault what="the grants" error={grants.error} retry={() => void grants.refetch()} />;
  const { grants: grantList, tokens } = grants.data;
  return (
    <>
      <Panel title="Grants">
        {grantList.length === 0 ? (
          <Empty title="No grants.">Create one with a command below.</Empty>
        ) : (
          <Table
            caption="All grants"
            rows={grantList}
            keyOf={({ id }) => id}
            columns={[
              { key: 'state', head: 'State', cell: (grant) => <GrantStateBadge grant={grant} /> },
              { key: 'rack', head: 'Rack', cell: ({ rack }) => rack },
              { key: 'verbs', head: 'Verbs', cell: ({ verbs }) => verbs.join(', ') },
              { key: 'to', head: 'To', cell: ({ to }) => to },
              {
                key: 'expires',
                head: 'Expires',
                cell: ({ expires_at: at }) => <span className={css['time']}>{formatTime(at)}</span>,
              },
              {
                key: 'by',
                head: 'Granted',
                cell: ({ granted_at: at, granted_by: by }) => (
                  <span className={css['time']}>
                    {formatRelativeTime(at)} by {by}
                  </span>
                ),
              },
              { key: 'id', head: 'Id', cell: ({ id }) => <CopyValue value={id} label={`the id ${id}`} /> },
            ]}
          />
        )}
      </Panel>
      <Panel title="Write tokens">
        {tokens.length === 0 ? (
          <Empty title="No write tokens.">
            A write token lets your program send events to one rack. Its secret is printed once.
          </Empty>
        ) : (
          <Table
            caption="All write tokens"
            rows={tokens}
            keyOf={({ id }) => id}
            columns={[
              { key: 'state', head: 'State', cell: (token) => <GrantStateBadge grant={token} /> },
              { key: 'rack', head: 'Rack', cell: ({ rack }) => rack },
              { key: 'label', head: 'Label', cell: ({ label }) => label ?? '' },
              { key: 'grant', head: 'Grant', cell: ({ grant }) => <code>{grant}</code> },
              {
                key: 'expires',
                head: 'Expires',
                cell: ({ expires_at: at }) => <span className={css['time']}>{formatTime(at)}</span>,
              },
              { key: 'id', head: 'Id', cell: ({ id }) => <CopyValue value={id} label={`the id ${id}`} /> },
            ]}
          />
        )}
      </Panel>
      <Panel title="How to create grants and write tokens">
        <p>On the host's machine, with its data directory:</p>
        <CodeBlock
          label="Commands for grants and write tokens"
          code={[
            'node dist/host.js recorder grant --rack completions --verbs read --expires 7d',
            'node dist/host.js recorder grant --rack external --verbs write --expires 30d',
            'node dist/host.js recorder token --rack external',
            'node dist/host.js recorder revoke ID',
          ].join('\n')}
        />
      </Panel>
    </>
  );
}

function GrantStateBadge({
  grant,
}: {
  grant: { readonly expires_at: string; readonly revoked_at: string | null };
}) {
  if (grant.revoked_at !== null) return <StateBadge state="revoked" isRecorded />;
  return Date.parse(grant.expires_at) < Date.now() ? (
    <StateBadge state="expired" isRecorded />
  ) : (
    <StateBadge state="active" />
  );
}
