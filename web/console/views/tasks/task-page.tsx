import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { Ago, agentsCss as css, Broken, placeOf, StateBadge, Took } from '../../agents/parts.tsx';
import type { TurnEvent } from '../../agents/shapes.ts';
import { TurnLog } from '../../agents/turn-log.tsx';
import { logOf } from '../../agents/turns.ts';
import { useEvents } from '../../agents/use-events.ts';
import { api, held } from '../../api/client.ts';
import type { components } from '../../api/schema.d.ts';
import { formatNumber, formatTime } from '../../parts/format.ts';
import { Facts, FaultNote, Loading, Page, Panel } from '../../parts/index.tsx';
import { useAgents } from './use-agents.ts';

type TaskDetail = components['schemas']['TaskDetail'];

/** A task: live events, state and budgets. */
export function TaskPage({ id }: { id: string }) {
  const task = useQuery({
    queryKey: ['task', id],
    queryFn: () => held(api.GET('/agent/v1/tasks/{id}', { params: { path: { id } } })),
    refetchInterval: ({ state: { data } }) => (data && data.ended_at === undefined ? 1500 : false),
  });
  const told = useEvents<TurnEvent>(
    `/agent/v1/tasks/${encodeURIComponent(id)}/events`,
    task.data !== undefined && task.data.ended_at === undefined,
  );
  const log = logOf(told.events);
  return (
    <Page title={`Task ${id}`} lead={task.data?.title} tools={<Link href="/console/tasks">All tasks</Link>}>
      {task.isPending && <Loading what="the task" />}
      {task.isError && <FaultNote error={task.error} retry={() => void task.refetch()} />}
      {task.data && (
        <div className={css['columns']}>
          <Panel title="Events">
            {told.events.length === 0 && told.fault === undefined && <Loading what="its events" />}
            <TurnLog log={log} label="Events of the task" />
            {log.end === undefined && told.events.length > 0 && (
              <p className={css['quiet']} role="status">
                {task.data.last_event ?? 'Running'} ...
              </p>
            )}
            <Broken fault={told.broken} />
            {told.fault !== undefined && <FaultNote error={told.fault} />}
          </Panel>
          <TaskFacts task={task.data} spent={log.spent} />
        </div>
      )}
    </Page>
  );
}

function TaskFacts({ task, spent }: { task: TaskDetail; spent: ReturnType<typeof logOf>['spent'] }) {
  const info = useQuery({ queryKey: ['info'], queryFn: () => held(api.GET('/host/v1/info')) });
  const agents = useAgents();
  const limits = agents.data?.find(({ name }) => name === task.agent)?.limits;
  const { prompt, completion } = task.tokens ?? spent;
  const { planner } = info.data ?? {};
  return (
    <div className={css['stack']}>
      <Panel title="This task">
        <Facts
          facts={[
            ['State', <StateBadge key="state" state={task.state} />],
            [
              'Agent',
              <Link key="agent" href={`/console/tasks/agents/${task.agent}`}>
                {task.agent}
              </Link>,
            ],
            ...(task.route ? [['Model', `${task.route.model} (${task.route.engine})`] as const] : []),
            ...(task.cwd === undefined ? [] : [['Folder', task.cwd] as const]),
            [
              'Started',
              <>
                {formatTime(task.started_at)}, <Ago time={task.started_at} />
              </>,
            ],
            ...(task.session_id === undefined ? [] : [['Store session', task.session_id] as const]),
          ]}
        />
        {planner && task.route?.engine === planner.kind && (
          <p className={css['quiet']}>{planner.disclosure}</p>
        )}
        {task.ended_at === undefined ? (
          <p className={css['quiet']}>
            A task cannot be paused or cancelled. It ends when it has an answer or exceeds a budget.
          </p>
        ) : (
          <p>
            <Link href={placeOf.session(task.id)}>Session and signed receipt</Link>
          </p>
        )}
      </Panel>
      <Panel title="Budgets">
        <Facts
          facts={[
            ['Turns', `${spent.turns} of ${limits?.max_turns ?? 16}`],
            [
              'Tokens',
              `${formatNumber(completion)} completion${limits?.max_tokens === undefined ? '' : ` of ${formatNumber(limits.max_tokens)}`}, ${formatNumber(prompt)} prompt`,
            ],
            [
              'Time',
              <>
                <Took from={task.started_at} to={task.ended_at} /> of {limits?.timeout_secs ?? 600} s
              </>,
            ],
          ]}
        />
        <p className={css['quiet']}>
          These are the current limits of the agent {task.agent}. Limits that the task was started with take
          precedence.
        </p>
      </Panel>
    </div>
  );
}
