import { useMutation, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
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
import { api, fetchRaw, unwrap } from '../../../api/client.ts';
import type { components } from '../../../api/schema.d.ts';
import { CopyValue } from '../../../ui/copy.tsx';
import { formatNumber, formatTime } from '../../../ui/format.ts';
import { Button, Facts, FaultNote, Field, Loading, Page, Panel } from '../../../ui/index.tsx';
import { useAgents } from './use-agents.ts';

type TaskDetail = components['schemas']['TaskDetail'];

/** A task: live events, state and budgets. */
export function TaskPage({ id }: { id: string }) {
  const task = useQuery({
    queryKey: ['task', id],
    queryFn: () => unwrap(api.GET('/agent/v1/tasks/{id}', { params: { path: { id } } })),
  });
  const stream = useEvents<TurnEvent>(
    `/agent/v1/tasks/${encodeURIComponent(id)}/events`,
    task.data !== undefined && task.data.ended_at === undefined,
    // A message may be answered before the task is seen running.
    String(task.data?.parts),
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
            {task.data.ended_at === undefined ? (
              <StopTask id={id} onStopped={() => void task.refetch()} />
            ) : (
              <Reply id={id} onSent={() => void task.refetch()} />
            )}
          </Panel>
          <TaskDetails task={task.data} usageTotals={log.usageTotals} />
        </div>
      )}
    </Page>
  );
}

function StopTask({ id, onStopped }: { id: string; onStopped: () => void }) {
  const stop = useMutation({
    mutationFn: () => unwrap(api.POST('/agent/v1/tasks/{id}/stop', { params: { path: { id } } })),
    onSettled: onStopped,
  });
  return (
    <div className={css['form']}>
      <div>
        <Button kind="danger" busy={stop.isPending} onClick={() => stop.mutate()}>
          Stop the task
        </Button>
      </div>
      {stop.error && <FaultNote error={stop.error} />}
    </div>
  );
}

/** Goes on with a task that has ended. */
function Reply({ id, onSent }: { id: string; onSent: () => void }) {
  const [prompt, setPrompt] = useState('');
  const send = useMutation({
    mutationFn: async (text: string) => {
      const response = await fetchRaw(`/agent/v1/tasks/${encodeURIComponent(id)}/messages`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ prompt: text }),
      });
      // The page follows the events of the task by itself.
      await response.body?.cancel();
    },
    onSuccess: () => {
      setPrompt('');
      onSent();
    },
  });
  return (
    <form
      className={css['form']}
      onSubmit={(event) => {
        event.preventDefault();
        if (prompt.trim() !== '') send.mutate(prompt);
      }}
    >
      <Field label="Message" hint="The agent continues with the whole history of the task.">
        {(control) => (
          <textarea
            {...control}
            className={`${control.className} ${css['text']}`}
            rows={3}
            value={prompt}
            onChange={({ target }) => setPrompt(target.value)}
          />
        )}
      </Field>
      <div>
        <Button type="submit" busy={send.isPending} disabled={prompt.trim() === ''}>
          Send
        </Button>
      </div>
      {send.error && <FaultNote error={send.error} />}
    </form>
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
            ['Id', <CopyValue key="id" value={task.id} label="the task's id" />],
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
            ...(task.session_id === undefined
              ? []
              : [
                  [
                    'Store session',
                    <CopyValue key="session" value={task.session_id} label="the id of the store session" />,
                  ] as const,
                ]),
          ]}
        />
        {planner && task.route?.engine === planner.kind && (
          <p className={css['quiet']}>{planner.disclosure}</p>
        )}
        {task.ended_at !== undefined && (
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
                <Duration from={task.started_at} to={task.ended_at} />
                {task.parts === 1 && ` of ${limits?.timeout_secs ?? 600} s`}
              </>,
            ],
          ]}
        />
        <p className={css['quiet']}>
          These are the current limits of the agent {task.agent}. Limits that the task was started with take
          precedence; they apply to each message.
        </p>
      </Panel>
    </div>
  );
}
