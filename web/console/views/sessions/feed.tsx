import { Link } from 'wouter';
import { formatRelativeTime, formatMs, formatNumber } from '../../../ui/format.ts';
import { Empty, FaultNote, Field, Loading, Panel, Table } from '../../../ui/index.tsx';
import { ListFilter } from '../../../ui/list-filter.tsx';
import { useUrlState } from '../../../ui/url-state.ts';
import { CancelButton } from './cancel.tsx';
import { matchesFilter, type Session } from './sessions.ts';
import css from './sessions.module.css';
import { SessionStateBadge } from './state-badge.tsx';
import { limitChoices, useFeed, defaultLimit } from './use-feed.ts';
import { stateLabel } from '../../../ui/states.ts';

const kinds = ['task', 'run', 'external', 'host'];
/** Words for states; addresses of earlier versions have the names on the wire. */
const states = ['running', 'paused', 'waiting', 'done', 'failed', 'cancelled'];

export function Feed() {
  const [kind, setKind] = useUrlState('kind');
  const [state, setState] = useUrlState('state');
  const [text, setText] = useUrlState('text');
  const [limit, setLimit] = useUrlState('limit', defaultLimit);
  const feed = useFeed(limit);
  const rows = (feed.data ?? []).filter((session) => matchesFilter(session, { kind, state, text }));
  return (
    <Panel>
      <div className={css['filters']}>
        <FilterSelect label="Kind" of={kinds} value={kind} onChoose={setKind} />
        <FilterSelect label="State" of={states} value={state && stateLabel(state)} onChoose={setState} />
        <Field label="Ended sessions">
          {(control) => (
            <select {...control} value={limit} onChange={({ target }) => setLimit(target.value)}>
              {[...new Set([...limitChoices, limit])].map((count) => (
                <option key={count} value={count}>
                  newest {count}
                </option>
              ))}
            </select>
          )}
        </Field>
      </div>
      <ListFilter
        what="sessions"
        value={text}
        onChange={setText}
        shown={rows.length}
        total={feed.data?.length ?? 0}
      />
      {feed.isPending && <Loading what="the sessions" />}
      {feed.isError && <FaultNote error={feed.error} retry={() => void feed.refetch()} />}
      {feed.data && rows.length === 0 && (
        <Empty title="No matching sessions.">
          There are {feed.data.length} sessions. Choose another kind or state, or clear the search.
        </Empty>
      )}
      {rows.length > 0 && (
        <>
          <p className={css['muted']}>
            Order: running tasks and runs, external sessions, the host, then ended sessions.
          </p>
          <FeedTable rows={rows} />
        </>
      )}
    </Panel>
  );
}

function FilterSelect(props: {
  label: string;
  of: readonly string[];
  value: string;
  onChoose: (value: string) => void;
}) {
  const { label, of: choices, value, onChoose } = props;
  return (
    <Field label={label}>
      {(control) => (
        <select {...control} value={value} onChange={({ target }) => onChoose(target.value)}>
          <option value="">any</option>
          {choices.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      )}
    </Field>
  );
}

function FeedTable({ rows }: { rows: readonly Session[] }) {
  return (
    <Table
      caption="Sessions"
      rows={rows}
      keyOf={({ id }) => id}
      columns={[
        { key: 'state', head: 'State', cell: (session) => <SessionStateBadge session={session} /> },
        {
          key: 'title',
          head: 'Session',
          cell: (session) => (
            <div className={css['title']}>
              <Link href={`/console/sessions/${encodeURIComponent(session.id)}`}>{session.title}</Link>
              <small className={css['muted']}>
                {[
                  session.kind,
                  session.id,
                  session.harness,
                  session.last_event && stateLabel(session.last_event),
                ]
                  .filter(Boolean)
                  .join(' · ')}
              </small>
            </div>
          ),
        },
        {
          key: 'started',
          head: 'Started',
          cell: ({ started_at: at }) => <time dateTime={at}>{formatRelativeTime(at)}</time>,
        },
        {
          key: 'took',
          head: 'Duration',
          number: true,
          cell: ({ started_at: from, ended_at: to }) => (to === undefined ? '' : formatDuration(from, to)),
        },
        { key: 'tokens', head: 'Tokens', number: true, cell: formatTokens },
        {
          key: 'route',
          head: 'Model',
          cell: ({ route }) => route && `${route.model}${route.engine === 'gateway' ? ' (gateway)' : ''}`,
        },
        {
          key: 'cancel',
          head: 'Actions',
          cell: (session) => session.cancellable && <CancelButton session={session} />,
        },
      ]}
    />
  );
}

export const formatDuration = (from: string, to: string): string =>
  formatMs(Date.parse(to) - Date.parse(from));

/** Measured tokens, or those that the client claims, marked as claimed. */
function formatTokens({ tokens, tokens_claimed: claimedTokens }: Session): string {
  if (tokens) return formatNumber(tokens.prompt + tokens.completion);
  return claimedTokens ? `${formatNumber(claimedTokens.prompt + claimedTokens.completion)} claimed` : '';
}
