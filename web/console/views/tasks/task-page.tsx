import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import {
  RelativeTime,
  agentsCss as css,
  ReconnectNotice,
  consolePath,
  StateBadge,
  Duration,
} from '../../agents/parts.tsx';
import type { TurnEvent } from '../../agents/schemas.ts';
import { TurnLog } from '../../agents/turn-log.tsx';
import { buildTurnLog } from '../../agents/turn-log-data.ts';
import { useEvents } from '../../agents/use-events.ts';
import { api, unwrap } from '../../api/client.ts';
import type { components } from '../../api/schema.d.ts';
import { formatNumber, formatTime } from '../../parts/format.ts';
import { Facts, FaultNote, Loading, Page, Panel } from '../../parts/index.tsx';
import { useAgents } from './use-agents.ts';

type TaskDetail = components['schemas']['TaskDetail'];

/** A task: live events, state and budgets. */
export function TaskPage({ id }: { id: string }) {
  const task = useQuery({
    queryKey: ['task', id],
    queryFn: () => unwrap(api.GET('/agent/v1/tasks/{id}', { params: { path: { id } } })),
    refetchInterval: ({ state: { data } }) => (data && data.ended_at === undefined ? 1500 : false),
  });
  const stream = useEvents<TurnEvent>(
    `/agent/v1/tasks/${encodeURIComponent(id)}/events`,
    task.data !== undefined && task.data.ended_at === undefined,
  );
  const log = buildTurnLog(stream.events);
  return (
    <Page title={`Task ${id}`} lead={task.data?.title} tools={<Link href="/console/tasks">All tasks</Link>}>
      {task.isPending && <Loading what="the task" />}
      {task.isError && <FaultNote error={task.error} retry={() => void task.refetch()} />}
      {task.data && (
        <div className={css['columns']}>
          <Panel title="Events">
            {stream.events.length === 0 && stream.fault === undefined && <Loading what="its events" />}
            <TurnLog log={log} label="Events of the task" />
            {log.end === undefined && stream.events.length > 0 && (
              <p className={css['quiet']} role="status">
                {task.data.last_event ?? 'Running'} ...
              </p>
            )}
            <ReconnectNotice fault={stream.disconnectFault} />
            {stream.fault !== undefined && <FaultNote error={stream.fault} />}
          </Panel>
          <TaskDetails task={task.data} usageTotals={log.usageTotals} />
        </div>
      )}
    </Page>
  );
}

function TaskDetails({
  task,
  usageTotals,
}: {
  task: TaskDetail;
  usageTotals: ReturnType<typeof buildTurnLog>['usageTotals'];
}) {
  const info = useQuery({ queryKey: ['info'], queryFn: () => unwrap(api.GET('/host/v1/info')) });
  const agents = useAgents();
  const limits = agents.data?.find(({ name }) => name === task.agent)?.limits;
  const { prompt, completion } = task.tokens ?? usageTotals;
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
                {formatTime(task.started_at)}, <RelativeTime time={task.started_at} />
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
            <Link href={consolePath.session(task.id)}>Session and signed receipt</Link>
          </p>
        )}
      </Panel>
      <Panel title="Budgets">
        <Facts
          facts={[
            ['Turns', `${usageTotals.turns} of ${limits?.max_turns ?? 16}`],
            [
              'Tokens',
              `${formatNumber(completion)} completion${limits?.max_tokens === undefined ? '' : ` of ${formatNumber(limits.max_tokens)}`}, ${formatNumber(prompt)} prompt`,
            ],
            [
              'Time',
              <>
                <Duration from={task.started_at} to={task.ended_at} /> of {limits?.timeout_secs ?? 600} s
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
