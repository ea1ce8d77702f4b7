import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { api, unwrap } from '../../../api/client.ts';
import { CopyValue } from '../../../ui/copy.tsx';
import { formatRelativeTime, formatNumber, formatTime } from '../../../ui/format.ts';
import { Facts, FaultNote, Loading, Page, Panel } from '../../../ui/index.tsx';
import { CancelButton } from './cancel.tsx';
import { formatDuration } from './feed.tsx';
import { ReceiptPanel } from './receipt.tsx';
import { RevokePanel } from './revoke.tsx';
import { type Session, subjectPath } from './sessions.ts';
import { SessionStateBadge } from './state-badge.tsx';
import { limitChoices, useFeed } from './use-feed.ts';
import { stateLabel } from '../../../ui/states.ts';

/** A session of the feed. External sessions leave the feed when they end; then only the receipt is shown. */
export function Detail({ id }: { id: string }) {
  const feed = useFeed(limitChoices.at(-1));
  const session = feed.data?.find((row) => row.id === id);
  const task = useQuery({
    queryKey: ['agent', 'task-session', id],
    enabled: session?.kind === 'task',
    queryFn: () => unwrap(api.GET('/agent/v1/tasks/{id}', { params: { path: { id } } })),
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
              <Facts facts={[...sessionFacts(session), ...storeSessionFact(sessionId)]} />
            </Panel>
          ) : (
            <p>
              This session is not in the feed: it was external and has ended, it is older than the listed
              sessions, or it does not exist.
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

type LabeledValue = readonly [name: string, value: ReactNode];

const storeSessionFact = (id: string | undefined): LabeledValue[] =>
  id === undefined
    ? []
    : [['Store session', <CopyValue key="session" value={id} label="the id of the store session" />]];

function sessionFacts(session: Session): LabeledValue[] {
  const { id, kind, started_at: from, ended_at: to, tokens, tokens_claimed: claimedTokens, route } = session;
  const path = subjectPath(session);
  const optional = (name: string, value: string | undefined): LabeledValue[] =>
    value === undefined ? [] : [[name, value]];
  const formatTokens = (count: { prompt: number; completion: number }, by: string) =>
    `${formatNumber(count.prompt)} prompt, ${formatNumber(count.completion)} completion (${by})`;
  return [
    ['Id', <CopyValue key="id" value={id} label="the id" />],
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
    ['State', <SessionStateBadge key="state" session={session} />],
    ['Started', `${formatTime(from)} (${formatRelativeTime(from)})`],
    ...(to === undefined ? [] : [['Ended', `${formatTime(to)}, after ${formatDuration(from, to)}`] as const]),
    ...optional('Last event', session.last_event && stateLabel(session.last_event)),
    ...optional('Waiting for', session.waiting_on),
    ...optional('Suspended by', session.suspend_kind),
    ...(session.wrapper_cycle === undefined ? [] : [['Cycle', String(session.wrapper_cycle)] as const]),
    ...optional('Folder', session.cwd),
    ...optional('Harness', session.harness),
    ...optional('Client', session.client),
    ...(tokens ? [['Tokens', formatTokens(tokens, 'measured')] as const] : []),
    ...(claimedTokens ? [['Tokens claimed', formatTokens(claimedTokens, 'by the client')] as const] : []),
    ...(route ? [['Model', `${route.model} (${route.engine})`] as const] : []),
  ];
}
