import { useMutation } from '@tanstack/react-query';
import { useRef, useState } from 'react';
import { Link, useLocation } from 'wouter';
import { agentsCss as css, consolePath } from '../../agents/parts.tsx';
import type { TurnEvent } from '../../agents/schemas.ts';
import { grantedTools } from '../../agents/tools.ts';
import { fetchRaw } from '../../../api/client.ts';
import { asFault } from '../../../api/fault.ts';
import { readJsonLines } from '../../../api/lines.ts';
import { Button, FaultNote, Field, Panel, Row } from '../../../ui/index.tsx';
import { useUrlState } from '../../../ui/url-state.ts';
import { TaskOptions } from './task-options.tsx';
import { emptyDraft, type DraftFaults, buildTaskRequest, type TaskDraft } from './task-request.ts';
import { ToolChoice } from './tool-choice.tsx';
import { useAgents, useTools } from './use-agents.ts';

/** Form that starts a task and opens its page. */
export function StartTaskForm() {
  const agents = useAgents();
  const tools = useTools();
  const [chosen, choose] = useUrlState('agent', 'default');
  const [draft, setDraft] = useState<TaskDraft>(emptyDraft);
  const [withheld, setWithheld] = useState<ReadonlySet<string>>(new Set());
  const [faults, setFaults] = useState<DraftFaults>({});
  const [, navigate] = useLocation();
  const agent = agents.data?.find(({ name }) => name === chosen);
  const agentTools = agent ? grantedTools(agent.grants.tools, tools.data ?? []) : [];
  // The idempotency key makes a retry after a lost response the same task.
  const idempotency = useRef<{ body: string; key: string }>({ body: '', key: '' });
  const start = useMutation({
    mutationFn: async (body: string) => {
      if (idempotency.current.body !== body) idempotency.current = { body, key: newIdempotencyKey() };
      const response = await fetchRaw('/agent/v1/tasks', {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'idempotency-key': idempotency.current.key },
        body,
      });
      // The first event has the task id. The task continues after the response is dropped.
      for await (const event of readJsonLines<TurnEvent>(response))
        if (event.type === 'start') return event.task_id;
      throw new Error('The response did not confirm that the task started. Check the list of tasks.');
    },
    onSuccess: (id) => navigate(consolePath.task(id)),
  });
  const updateDraft = (part: Partial<TaskDraft>) => setDraft((before) => ({ ...before, ...part }));
  const hostFault = (path: string) =>
    start.error
      ? asFault(start.error).violations.find((violation) => violation.path === path)?.message
      : undefined;
  return (
    <Panel title="Start a task">
      {agents.isError && <FaultNote error={agents.error} retry={() => void agents.refetch()} />}
      {tools.isError && <FaultNote error={tools.error} retry={() => void tools.refetch()} />}
      <form
        className={css['columns']}
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          const parsed = buildTaskRequest(
            draft,
            chosen,
            agentTools.map(({ name }) => name),
            withheld,
          );
          setFaults('faults' in parsed ? parsed.faults : {});
          if ('body' in parsed) start.mutate(JSON.stringify(parsed.body));
        }}
      >
        <div className={css['form']}>
          <Field
            label="Agent"
            fault={agents.data && !agent ? `There is no agent '${chosen}'.` : hostFault('agent')}
            hint={
              agent && (
                <>
                  {agent.description} Model: {agent.model}.{' '}
                  <Link href={`/console/tasks/agents/${agent.name}`}>View the agent</Link>
                </>
              )
            }
          >
            {(control) => (
              <select
                {...control}
                value={chosen}
                onChange={({ target }) => {
                  choose(target.value);
                  setWithheld(new Set());
                }}
              >
                {!agent && <option value={chosen}>{chosen}</option>}
                {agents.data?.map(({ name }) => (
                  <option key={name}>{name}</option>
                ))}
              </select>
            )}
          </Field>
          <Field label="Prompt" fault={faults.prompt ?? hostFault('prompt')}>
            {(control) => (
              <textarea
                {...control}
                className={`${control.className} ${css['text']}`}
                rows={4}
                value={draft.prompt}
                onChange={({ target }) => updateDraft({ prompt: target.value })}
              />
            )}
          </Field>
          <Field
            label="Working folder"
            hint="An absolute path, the base of relative paths. It grants no access."
            fault={hostFault('cwd')}
          >
            {(control) => (
              <input
                {...control}
                spellCheck={false}
                value={draft.cwd}
                onChange={({ target }) => updateDraft({ cwd: target.value })}
              />
            )}
          </Field>
          <TaskOptions
            draft={draft}
            onChange={updateDraft}
            faults={faults}
            hostFault={hostFault}
            limits={agent?.limits}
          />
        </div>
        <div className={css['form']}>
          <ToolChoice agent={agent} tools={agentTools} withheld={withheld} onWithhold={setWithheld} />
          {start.error !== null && <FaultNote error={start.error} />}
          <Row>
            <Button type="submit" kind="primary" busy={start.isPending} disabled={!agent}>
              Start the task
            </Button>
          </Row>
        </div>
      </form>
    </Panel>
  );
}

/** A random key. `crypto.randomUUID` is missing in insecure contexts, such as plain HTTP from another machine. */
const newIdempotencyKey = (): string =>
  [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
