import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { Link } from 'wouter';
import { api, held } from '../../api/client.ts';
import { formatAgo, formatTime } from '../../parts/format.ts';
import { gated, GatedFault } from '../../parts/gated.tsx';
import { Badge, Button, Empty, Facts, Loading, Panel, Table } from '../../parts/index.tsx';
import { RevokePanel } from './revoke.tsx';
import css from './sessions.module.css';
import { subjectPath, toneOf } from './sessions.ts';

/** What remote clients of the host see; needs the bearer token. */
async function served() {
  const [sessions, offer, harnesses] = await Promise.all([
    held(api.GET('/host/v1/sessions')),
    held(api.GET('/host/v1/served')),
    held(api.GET('/host/v1/harnesses')),
  ]);
  return { ...sessions, offer, harnesses: harnesses.harnesses };
}

export function Served() {
  const [chosen, setChosen] = useState<string>();
  const all = useQuery({
    queryKey: ['host', 'served'],
    queryFn: served,
    ...gated,
    refetchInterval: ({ state }) => (state.status === 'error' ? false : 2000),
  });
  if (all.isPending) return <Loading what="the served sessions" />;
  if (all.isError)
    return <GatedFault what="the served sessions" error={all.error} retry={() => void all.refetch()} />;
  const { sessions, turns, offer, harnesses } = all.data;
  return (
    <>
      <Panel title="Open store sessions">
        <Listed
          rows={sessions}
          none="There are none. A store session opens with a task or run and ends with it."
        >
          {(rows) => (
            <Table
              caption="All open store sessions"
              rows={rows}
              keyOf={({ id }) => id}
              columns={[
                { key: 'id', head: 'Id', cell: ({ id }) => <code className={css['nowrap']}>{id}</code> },
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
                  cell: ({ opened_at: at }) => <span className={css['nowrap']}>{formatAgo(at)}</span>,
                },
                {
                  key: 'revoked',
                  head: 'Credential',
                  cell: ({ revoked }) =>
                    revoked ? <Badge tone="bad">revoked</Badge> : <Badge tone="good">active</Badge>,
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
        </Listed>
      </Panel>
      {chosen !== undefined && <RevokePanel key={chosen} sessionId={chosen} />}
      <Panel title="Turns of the last ten minutes">
        <Listed rows={turns} none="No turn is running, and none ended in the last ten minutes.">
          {(rows) => (
            <Table
              caption="Turns"
              rows={rows}
              keyOf={({ id }) => id}
              columns={[
                {
                  key: 'state',
                  head: 'State',
                  cell: ({ state }) => <Badge tone={toneOf(state)}>{state}</Badge>,
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
        </Listed>
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
        <Listed rows={harnesses} none="No harness is registered.">
          {(rows) => (
            <Table
              caption="All harnesses"
              rows={rows}
              keyOf={({ name }) => name}
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
                  cell: ({ last_seen_at: at }) => (at === undefined ? '' : formatAgo(at)),
                },
              ]}
            />
          )}
        </Listed>
      </Panel>
    </>
  );
}

function Listed<Row>(props: {
  rows: readonly Row[];
  none: string;
  children: (rows: readonly Row[]) => ReactNode;
}) {
  const { rows, none, children } = props;
  return rows.length === 0 ? <Empty title={none} /> : children(rows);
}
