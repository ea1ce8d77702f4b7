import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import {
  RelativeTime,
  agentsCss as css,
  FilterSelect,
  consolePath,
  StateBadge,
  Duration,
} from '../../agents/parts.tsx';
import { api, unwrap } from '../../../api/client.ts';
import { Empty, FaultNote, Loading, Page, Panel, Table } from '../../../ui/index.tsx';
import { useUrlState } from '../../../ui/url-state.ts';
import { stateLabel } from '../../../ui/states.ts';

const states = [
  ['', 'all'],
  ['running', 'running'],
  ['paused', 'paused'],
  ['suspended', 'waiting'],
  ['completed', 'done'],
  ['failed', 'failed'],
  ['cancelled', 'cancelled'],
] as const;

const limitChoices = [
  ['100', 'last 100'],
  ['1000', 'last 1000'],
] as const;

export function RunList() {
  const [state, setState] = useUrlState('state');
  const [workflow, setWorkflow] = useUrlState('workflow');
  const [limitParam, setLimit] = useUrlState('last', '100');
  const limit = limitParam === '1000' ? '1000' : '100';
  const runs = useQuery({
    queryKey: ['runs', limit],
    queryFn: () => unwrap(api.GET('/agent/v1/workflows/runs', { params: { query: { limit } } })),
    placeholderData: keepPreviousData,
  });
  // Only the sessions feed has what a run waits for.
  const sessions = useQuery({
    queryKey: ['sessions'],
    queryFn: () => unwrap(api.GET('/agent/v1/sessions')),
  });
  const sessionById = new Map(sessions.data?.sessions.map((session) => [session.id, session]));
  const rowOf = (id: string) => sessionById.get(id);
  const lastEventOf = (id: string) => {
    const last = rowOf(id)?.last_event;
    return last === undefined ? '' : stateLabel(last);
  };
  const names = [...new Set(runs.data?.map((run) => run.workflow))].toSorted();
  if (workflow !== '' && !names.includes(workflow)) names.unshift(workflow);
  const shown = runs.data?.filter(
    (run) => (state === '' || run.state === state) && (workflow === '' || run.workflow === workflow),
  );
  return (
    <Page
      title="Runs"
      lead="Running, waiting and finished workflow runs. One run executes at a time."
      tools={<Link href="/console/workflows">Run a workflow</Link>}
    >
      <Panel
        title="Recent runs"
        tools={
          <>
            <FilterSelect label="State" value={state} onChoose={setState} options={states} />
            <FilterSelect
              label="Workflow"
              value={workflow}
              onChoose={setWorkflow}
              options={[['', 'all'], ...names.map((name) => [name, name] as const)]}
            />
            <FilterSelect label="Show" value={limit} onChoose={setLimit} options={limitChoices} />
          </>
        }
      >
        {runs.isPending && <Loading what="the runs" />}
        {runs.isError && <FaultNote error={runs.error} retry={() => void runs.refetch()} />}
        {shown?.length === 0 && (
          <Empty title={runs.data?.length === 0 ? 'No workflow has run yet.' : 'No matching runs.'}>
            {runs.data?.length === 0 ? (
              <Link href="/console/workflows">Choose one and run it</Link>
            ) : (
              'Choose another state or workflow.'
            )}
          </Empty>
        )}
        {shown && shown.length > 0 && (
          <Table
            caption="Runs"
            rows={shown}
            keyOf={({ id }) => id}
            filter={{
              what: 'runs',
              textOf: (run) => `${run.id} ${run.workflow} ${stateLabel(run.state)} ${lastEventOf(run.id)}`,
            }}
            columns={[
              {
                key: 'id',
                head: 'Run',
                cell: ({ id, workflow: name }) => (
                  <span className={css['two']}>
                    <Link href={consolePath.run(id)} className={css['whole'] ?? ''}>
                      {name}
                    </Link>
                    <span className={css['quiet']}>{id}</span>
                  </span>
                ),
              },
              {
                key: 'state',
                head: 'State',
                cell: (run) => <StateBadge state={run.state} waitingOn={rowOf(run.id)?.waiting_on} />,
              },
              {
                key: 'last',
                head: 'Last event',
                cell: ({ id }) => <span className={css['wide']}>{lastEventOf(id)}</span>,
              },
              {
                key: 'took',
                head: 'Duration',
                number: true,
                cell: ({ started_at: from, ended_at: to }) => <Duration from={from} to={to} />,
              },
              { key: 'at', head: 'Started', cell: ({ started_at: at }) => <RelativeTime time={at} /> },
              {
                key: 'more',
                head: 'Cycle, retry',
                cell: ({ wrapper_cycle: cycle, retried_from: from }) => (
                  <>
                    {cycle !== undefined && `cycle ${cycle} `}
                    {from !== undefined && <Link href={consolePath.run(from)}>retry of an earlier run</Link>}
                  </>
                ),
              },
            ]}
          />
        )}
      </Panel>
    </Page>
  );
}
