import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { api, held } from '../../api/client.ts';
import { formatAgo, formatNumber, formatTime } from '../../parts/format.ts';
import { Facts, FaultNote, Loading, Page, Panel } from '../../parts/index.tsx';
import { CancelButton } from './cancel.tsx';
import { tookOf } from './feed.tsx';
import { ReceiptPanel } from './receipt.tsx';
import { RevokePanel } from './revoke.tsx';
import { type Session, subjectPath } from './sessions.ts';
import { StateBadge } from './state-badge.tsx';
import { limits, useFeed } from './use-feed.ts';

/** One session of the feed. Work from elsewhere leaves the feed when it ends: its receipt is what is left. */
export function Detail({ id }: { id: string }) {
  const feed = useFeed(limits.at(-1));
  const session = feed.data?.find((row) => row.id === id);
  const task = useQuery({
    queryKey: ['agent', 'task-session', id],
    enabled: session?.kind === 'task',
    queryFn: () => held(api.GET('/agent/v1/tasks/{id}', { params: { path: { id } } })),
  });
  const isSubject = session?.kind === 'task' || session?.kind === 'run';
  const sessionId = task.data?.session_id;
  return (
    <Page
      title={session?.title ?? id}
      lead={<Link href="/console/sessions">All sessions</Link>}
      tools={session?.cancellable && <CancelButton session={session} />}
    >
      {feed.isPending && <Loading what="the session" />}
      {feed.isError && <FaultNote error={feed.error} retry={() => void feed.refetch()} />}
      {feed.data && (
        <>
          {session ? (
            <Panel title="Session">
              <Facts facts={[...factsOf(session), ...sessionFact(sessionId)]} />
            </Panel>
          ) : (
            <p>
              It is not in the feed: it has ended elsewhere, it is older than what is listed, or there was
              none.
            </p>
          )}
          {session?.kind !== 'host' && <ReceiptPanel id={id} isOver={session?.ended_at !== undefined} />}
          {isSubject && session.ended_at === undefined && (
            <RevokePanel key={sessionId ?? ''} sessionId={sessionId} />
          )}
        </>
      )}
    </Page>
  );
}

type Fact = readonly [name: string, value: ReactNode];

const sessionFact = (id: string | undefined): Fact[] =>
  id === undefined ? [] : [['Store session', <code key="session">{id}</code>]];

function factsOf(session: Session): Fact[] {
  const { id, kind, started_at: from, ended_at: to, tokens, tokens_claimed: claimed, route } = session;
  const path = subjectPath(session);
  const optional = (name: string, value: string | undefined): Fact[] =>
    value === undefined ? [] : [[name, value]];
  const counted = (count: { prompt: number; completion: number }, by: string) =>
    `${formatNumber(count.prompt)} read, ${formatNumber(count.completion)} written (${by})`;
  return [
    ['Id', <code key="id">{id}</code>],
    [
      'Kind',
      path === undefined ? (
        kind
      ) : (
        <span key="kind">
          {kind}: <Link href={path}>open the {kind}</Link>
        </span>
      ),
    ],
    ['State', <StateBadge key="state" session={session} />],
    ['Started', `${formatTime(from)} (${formatAgo(from)})`],
    ...(to === undefined ? [] : [['Ended', `${formatTime(to)}, after ${tookOf(from, to)}`] as const]),
    ...optional('Last event', session.last_event),
    ...optional('Waits for', session.waiting_on),
    ...optional('Suspended by', session.suspend_kind),
    ...(session.wrapper_cycle === undefined ? [] : [['Cycle', String(session.wrapper_cycle)] as const]),
    ...optional('Folder', session.cwd),
    ...optional('Harness', session.harness),
    ...optional('Client', session.client),
    ...(tokens ? [['Tokens', counted(tokens, 'measured')] as const] : []),
    ...(claimed ? [['Tokens claimed', counted(claimed, 'by the client')] as const] : []),
    ...(route ? [['Model', `${route.model} (${route.engine})`] as const] : []),
  ];
}
