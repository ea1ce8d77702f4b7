import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { Link } from 'wouter';
import { api, unwrap } from '../../../api/client.ts';
import { CopyValue } from '../../../ui/copy.tsx';
import { formatRelativeTime, formatTime } from '../../../ui/format.ts';
import { protectedQueryOptions, ProtectedRouteFault } from '../../shell/protected-route.tsx';
import { Button, Empty, Facts, Loading, Panel, Table } from '../../../ui/index.tsx';
import { RevokePanel } from './revoke.tsx';
import css from './sessions.module.css';
import { subjectPath } from './sessions.ts';
import { StateBadge } from '../../../ui/state-badge.tsx';
import { stateLabel } from '../../../ui/states.ts';

/** What remote clients of the host see; needs the bearer token. */
async function fetchServed() {
  const [sessions, offer, harnesses] = await Promise.all([
    unwrap(api.GET('/host/v1/sessions')),
    unwrap(api.GET('/host/v1/served')),
    unwrap(api.GET('/host/v1/harnesses')),
  ]);
  return { ...sessions, offer, harnesses: harnesses.harnesses };
}

export function Served() {
  const [chosen, setChosen] = useState<string>();
  const servedQuery = useQuery({
    queryKey: ['host', 'served'],
    queryFn: fetchServed,
    ...protectedQueryOptions,
  });
  if (servedQuery.isPending) return <Loading what="the served sessions" />;
  if (servedQuery.isError)
    return (
      <ProtectedRouteFault
        what="the served sessions"
        error={servedQuery.error}
        retry={() => void servedQuery.refetch()}
      />
    );
  const { sessions, turns, offer, harnesses } = servedQuery.data;
  return (
    <>
      <Panel title="Open store sessions">
        <ListOrEmpty
          rows={sessions}
          emptyTitle="No open store sessions."
          advice="One opens with each task or run, and ends with it."
        >
          {(rows) => (
            <Table
              caption="All open store sessions"
              rows={rows}
              keyOf={({ id }) => id}
              filter={{
                what: 'store sessions',
                textOf: ({ id, kind, subject }) => `${id} ${kind} ${subject}`,
              }}
              columns={[
                {
                  key: 'id',
                  head: 'Id',
                  cell: ({ id }) => (
                    <span className={css['nowrap']}>
                      <CopyValue value={id} label={`the id ${id}`} />
                    </span>
                  ),
                },
                {
                  key: 'subject',
                  head: 'Subject',
                  cell: ({ kind, subject }) => (
                    <Link href={subjectPath({ kind, id: subject }) ?? ''}>
                      {kind} {subject}
                    </Link>
                  ),
                },
                {
                  key: 'opened',
                  head: 'Opened',
                  cell: ({ opened_at: at }) => (
                    <span className={css['nowrap']}>{formatRelativeTime(at)}</span>
                  ),
                },
                {
                  key: 'revoked',
                  head: 'Credential',
                  cell: ({ revoked }) => (
                    <StateBadge state={revoked ? 'revoked' : 'active'} isRecorded={revoked} />
                  ),
                },
                {
                  key: 'revoke',
                  head: 'Actions',
                  cell: ({ id, revoked: isOver }) =>
                    !isOver && (
                      <Button kind="danger" aria-label={`Revoke ${id}`} onClick={() => setChosen(id)}>
                        Revoke ...
                      </Button>
                    ),
                },
              ]}
            />
          )}
        </ListOrEmpty>
      </Panel>
      {chosen !== undefined && <RevokePanel key={chosen} sessionId={chosen} />}
      <Panel title="Turns of the last ten minutes">
        <ListOrEmpty
          rows={turns}
          emptyTitle="No turn is running, and none ended in the last ten minutes."
          advice="Start a task or a run to see its turns here."
        >
          {(rows) => (
            <Table
              caption="Turns"
              rows={rows}
              keyOf={({ id }) => id}
              filter={{
                what: 'turns',
                textOf: ({ id, kind, name, state }) => `${id} ${kind} ${name} ${stateLabel(state)}`,
              }}
              columns={[
                {
                  key: 'state',
                  head: 'State',
                  cell: ({ state }) => <StateBadge state={state} />,
                },
                {
                  key: 'id',
                  head: 'Turn',
                  cell: ({ kind, id }) => (
                    <Link href={subjectPath({ kind, id }) ?? ''}>
                      {kind} {id}
                    </Link>
                  ),
                },
                { key: 'name', head: 'Agent or workflow', cell: ({ name }) => name },
                {
                  key: 'started',
                  head: 'Started',
                  cell: ({ started_at: at }) => <span className={css['nowrap']}>{formatTime(at)}</span>,
                },
                {
                  key: 'ended',
                  head: 'Ended',
                  cell: ({ ended_at: at }) =>
                    at === undefined ? '' : <span className={css['nowrap']}>{formatTime(at)}</span>,
                },
              ]}
            />
          )}
        </ListOrEmpty>
      </Panel>
      <Panel title="What the host offers">
        <Facts
          facts={[
            ['Listens', offer.bind === 'lan' ? 'on the network' : 'on this machine only'],
            ['Models', offer.offering.models.map(({ id, kind }) => `${id} (${kind})`).join(', ') || 'none'],
            ['Verbs', offer.verbs.join(', ')],
            ['Sessions', offer.sessions_plane ? 'visible and controllable' : 'not offered'],
            ['Control socket', offer.control_port === 0 ? 'none' : `port ${offer.control_port}`],
            ['Operator', offer.operator_credential ? 'has a credential' : 'has no credential'],
          ]}
        />
      </Panel>
      <Panel title="Harnesses">
        <ListOrEmpty
          rows={harnesses}
          emptyTitle="No harness is registered."
          advice="A program registers its name when it begins a session of its own."
        >
          {(rows) => (
            <Table
              caption="All harnesses"
              rows={rows}
              keyOf={({ name }) => name}
              filter={{ what: 'harnesses', textOf: ({ name }) => name }}
              columns={[
                { key: 'name', head: 'Name', cell: ({ name }) => name },
                {
                  key: 'builtin',
                  head: 'Kind',
                  cell: ({ builtin }) => (builtin ? 'this host' : 'registered'),
                },
                { key: 'open', head: 'Open', number: true, cell: (row) => row.open_sessions ?? '' },
                { key: 'all', head: 'Sessions', number: true, cell: (row) => row.sessions ?? '' },
                {
                  key: 'seen',
                  head: 'Last seen',
                  cell: ({ last_seen_at: at }) => (at === undefined ? '' : formatRelativeTime(at)),
                },
              ]}
            />
          )}
        </ListOrEmpty>
      </Panel>
    </>
  );
}

function ListOrEmpty<Row>(props: {
  rows: readonly Row[];
  emptyTitle: string;
  /** How the list gets a row. */
  advice: string;
  children: (rows: readonly Row[]) => ReactNode;
}) {
  const { rows, emptyTitle, advice, children } = props;
  return rows.length === 0 ? <Empty title={emptyTitle}>{advice}</Empty> : children(rows);
}
