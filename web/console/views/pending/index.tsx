import { useQuery } from '@tanstack/react-query';
import { Link, Route, Switch } from 'wouter';
import { RelativeTime, agentsCss as css, consolePath, SubNav } from '../../agents/parts.tsx';
import { api, unwrap } from '../../../api/client.ts';
import { Badge, Empty, FaultNote, Loading, Page, Panel, WindowedList } from '../../../ui/index.tsx';
import { Decision, RiskBadge } from '../../agents/decision.tsx';
import { ActionJournal } from './action-journal.tsx';

const links = [
  { href: '/console/pending', title: 'Changes' },
  { href: '/console/pending/acts', title: 'Action journal' },
];
const lead = 'Tools that make changes only propose them. Nothing changes until you approve it.';

export default function View() {
  return (
    <Page title="Pending changes" lead={lead}>
      <SubNav label="Pending changes" links={links} />
      <Switch>
        <Route path="/console/pending/acts">
          <ActionJournal />
        </Route>
        <Route path="/console/pending/:id">{({ id }) => <Changes id={id} />}</Route>
        <Route>
          <Changes />
        </Route>
      </Switch>
    </Page>
  );
}

/** Pending changes, oldest first, and the details of one. */
function Changes({ id }: { id?: string }) {
  const pending = useQuery({
    queryKey: ['pending'],
    queryFn: () => unwrap(api.GET('/agent/v1/pending')),
  });
  const chosen = id ?? pending.data?.[0]?.id;
  return (
    <div className={`${css['columns']} ${css['listed']}`}>
      <Panel title="Pending, oldest first" tools={pending.data && <Badge>{pending.data.length}</Badge>}>
        {pending.isPending && <Loading what="the changes" />}
        {pending.isError && <FaultNote error={pending.error} retry={() => void pending.refetch()} />}
        {pending.data?.length === 0 && (
          <Empty title="No changes are pending.">
            When an agent uses a gated tool, its change is listed here. Past decisions are in the{' '}
            <Link href="/console/pending/acts">action journal</Link>.
          </Empty>
        )}
        {pending.data && pending.data.length > 0 && (
          <WindowedList
            label="Pending changes, oldest first"
            what="changes"
            items={pending.data}
            keyOf={(change) => change.id}
            textOf={(change) => `${change.id} ${change.agent} ${change.summary} ${change.risk}`}
            className={css['list']}
            estimatePx={64}
          >
            {(change) => (
              <Link
                href={consolePath.pending(change.id)}
                className={css['item']}
                {...(change.id === chosen ? { 'aria-current': 'true' as const } : {})}
              >
                <span>{change.summary}</span>
                <span className={css['names']}>
                  <span className={css['quiet']}>
                    {change.id} by {change.agent}, <RelativeTime time={change.created_at} />
                  </span>
                  <RiskBadge risk={change.risk} />
                </span>
              </Link>
            )}
          </WindowedList>
        )}
      </Panel>
      {chosen !== undefined && <Decision key={chosen} id={chosen} />}
    </div>
  );
}
