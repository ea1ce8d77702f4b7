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
import { formatNumber } from '../../../ui/format.ts';
import { Empty, FaultNote, Loading, Panel, Table } from '../../../ui/index.tsx';
import { useUrlState } from '../../../ui/url-state.ts';
import { stateLabel } from '../../../ui/states.ts';

const states = [
  ['', 'all'],
  ['running', 'running'],
  ['completed', 'done'],
  ['failed', 'failed'],
] as const;

/** Maximum number of ended sessions, of which tasks are a part. */
const limitChoices = [
  ['200', 'of the last 200 sessions'],
  ['1000', 'of the last 1000 sessions'],
  ['10000', 'of the last 10000 sessions'],
] as const;

/** Running and ended tasks, newest first. */
export function TaskList() {
  const [state, setState] = useUrlState('state');
  const [limitParam, setLimit] = useUrlState('last', '200');
  const limit = limitChoices.find(([count]) => count === limitParam)?.[0] ?? '200';
  const sessions = useQuery({
    queryKey: ['sessions', limit],
    queryFn: () => unwrap(api.GET('/agent/v1/sessions', { params: { query: { limit } } })),
    placeholderData: keepPreviousData,
  });
  const tasks = sessions.data?.sessions.filter(({ kind }) => kind === 'task');
  const shown = tasks?.filter((task) => state === '' || task.state === state);
  return (
    <Panel
      title="Recent tasks"
      tools={
        <>
          <FilterSelect label="State" value={state} onChoose={setState} options={states} />
          <FilterSelect label="Show" value={limit} onChoose={setLimit} options={limitChoices} />
        </>
      }
    >
      {sessions.isPending && <Loading what="the tasks" />}
      {sessions.isError && <FaultNote error={sessions.error} retry={() => void sessions.refetch()} />}
      {shown?.length === 0 && (
        <Empty
          title={tasks?.length === 0 ? 'No task has run yet.' : `No recent task is ${stateLabel(state)}.`}
        >
          {tasks?.length === 0 ? 'Start one above.' : 'Choose another state.'}
        </Empty>
      )}
      {shown && shown.length > 0 && (
        <Table
          caption="Tasks, newest first"
          rows={shown}
          keyOf={({ id }) => id}
          filter={{
            what: 'tasks',
            textOf: ({ id, state: taskState, title, last_event: last }) =>
              `${id} ${stateLabel(taskState)} ${title} ${last ?? ''}`,
          }}
          columns={[
            { key: 'id', head: 'Task', cell: ({ id }) => <Link href={consolePath.task(id)}>{id}</Link> },
            { key: 'state', head: 'State', cell: (task) => <StateBadge state={task.state} /> },
            {
              key: 'title',
              head: 'Prompt',
              cell: ({ title }) => <span className={css['wide']}>{title}</span>,
            },
            {
              key: 'last',
              head: 'Last event',
              cell: ({ last_event: last }) => <span className={css['wide']}>{last && stateLabel(last)}</span>,
            },
            {
              key: 'tokens',
              head: 'Completion tokens',
              number: true,
              cell: ({ tokens }) => (tokens ? formatNumber(tokens.completion) : ''),
            },
            {
              key: 'took',
              head: 'Duration',
              number: true,
              cell: ({ started_at: from, ended_at: to }) => <Duration from={from} to={to} />,
            },
            { key: 'at', head: 'Started', cell: ({ started_at: at }) => <RelativeTime time={at} /> },
          ]}
        />
      )}
    </Panel>
  );
}
