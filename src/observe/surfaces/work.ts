import type { Surface } from '../types.ts';
import { endpoint, flag, integer, ms, required, text, time, tokensOf } from './columns.ts';
import { jsonText, msBetween, queryTime, tickOf, written } from './sql.ts';

const duration = { ...ms, sql: msBetween('t.started_at', 't.ended_at') };
const gateSince = jsonText('t.gate', 'since_at');
const sinceGate = {
  sqlite: msBetween(gateSince.sqlite, queryTime).sqlite,
  postgres: msBetween(gateSince.postgres, queryTime).postgres,
};
const tokens = tokensOf('t.engine', 'Of all its prompts together', 'Of all its answers together');

export const tasks: Surface = {
  name: 'tasks',
  description: 'Prompts given to an agent, and how they ended.',
  key: ['id'],
  time: 'started_at',
  source: { from: 'tasks', tables: ['tasks'] },
  columns: [
    text('id', 'derived', 'Of the task.', required),
    endpoint,
    text('agent', 'derived', 'Who works on it.', required),
    text('title', 'derived', 'The beginning of its prompt.', required),
    text('state', 'derived', 'running, completed or failed.', required),
    text('outcome', 'derived', 'answer, or why it was aborted.'),
    text('failure', 'derived', 'What was said of it when it failed.', {
      sql: `(case when t.state = 'failed' then t.last_event end)`,
    }),
    time('started_at', 'measured', 'When it was taken.', required),
    time('ended_at', 'measured', 'When it ended.'),
    integer('duration_ms', 'derived', 'From its start to its end.', duration),
    integer('turns', 'measured', 'Answers of the model.', { ...required, unit: 'turns' }),
    ...tokens,
    text('engine', 'derived', 'resident or gateway: whose model answers.', required),
    text('model', 'derived', 'The model that answers.', required),
    text('cwd', 'claimed', 'The folder that the request named.'),
    text('last_event', 'derived', 'What happened last, on one line.'),
    text('session_id', 'derived', 'Its store session, by which it can be revoked.'),
  ],
};

export const runs: Surface = {
  name: 'runs',
  description: 'Runs of workflows: what they wait for, and how they ended.',
  key: ['id'],
  time: 'started_at',
  source: { from: 'runs', tables: ['runs'] },
  columns: [
    text('id', 'derived', 'Of the run.', required),
    endpoint,
    text('workflow', 'derived', 'Its name.', required),
    text('source_digest', 'derived', 'Of the source that it started with.', {
      ...required,
      sql: 't.digest',
    }),
    text('state', 'derived', 'running, paused, suspended, completed, failed or cancelled.', required),
    text('failure', 'derived', 'What was said of it when it failed.', {
      sql: `(case when t.state = 'failed' then t.last_event end)`,
    }),
    text('waiting_on', 'derived', 'input, time, value, schedule, armed, approval or event.'),
    text('waiting_step', 'derived', 'The step whose gate it waits at; none at the entry.', {
      sql: jsonText('t.gate', 'step'),
    }),
    time('waiting_since', 'measured', 'When it came to the gate.', { sql: gateSince }),
    integer('waiting_ms', 'derived', 'Of those that wait at a gate: since when, until now.', {
      ...ms,
      sql: written`(case when t.state = 'suspended' then ${sinceGate} end)`,
    }),
    time('waiting_until', 'derived', 'When a gate of time or a schedule opens.', {
      sql: written`(case when t.waiting_on in ('time', 'schedule') then ${jsonText('t.gate', 'until_at')} end)`,
    }),
    text('suspend_kind', 'derived', 'interior_gate, entry_gate or crash.'),
    integer('cycle', 'measured', 'Of a scheduled or armed run: cycles so far.', { sql: 't.wrapper_cycle' }),
    text('requested', 'derived', 'pause or cancel: what happens at the next step.'),
    text('retried_from', 'derived', 'The run that it does again.'),
    time('started_at', 'measured', 'When it was taken.', required),
    time('ended_at', 'measured', 'When it ended.'),
    integer('duration_ms', 'derived', 'From its start to its end, waiting and all.', duration),
    ...tokens,
    text('engine', 'derived', 'resident or gateway: whose model answers.'),
    text('model', 'derived', 'The model that answers.'),
    text('last_event', 'derived', 'What happened last, on one line.'),
    text('session_id', 'derived', 'Its store session, by which it can be revoked.'),
  ],
};

export const steps: Surface = {
  name: 'steps',
  description: 'The steps of runs.',
  key: ['run_id', 'cycle', 'step'],
  time: 'started_at',
  source: {
    from: written`(select s.*, r.workflow, r.endpoint_id, r.engine, r.model${tickOf('s')} from run_steps as s left join runs as r on r.id = s.run_id)`,
    tables: ['run_steps', 'runs'],
  },
  columns: [
    text('run_id', 'derived', 'The run that it is of.', required),
    integer('cycle', 'derived', 'Of a scheduled or armed run; else 0.', required),
    text('step', 'derived', 'Its name in the workflow.', required),
    integer('position', 'derived', 'Its place among the steps, from 0.', required),
    text('endpoint_id', 'derived', 'The host that it is of.'),
    text('workflow', 'derived', 'Its name.'),
    text(
      'state',
      'derived',
      'running, waiting, completed, failed, skipped, cancelled or interrupted.',
      required,
    ),
    integer('attempts', 'measured', 'How often it was tried.', { ...required, unit: 'attempts' }),
    flag('side_effects', 'measured', 'Whether it may have changed something.', required),
    time('started_at', 'measured', 'When it was begun, or came to its gate.', required),
    time('ended_at', 'measured', 'When it ended.'),
    integer('duration_ms', 'derived', 'From its start to its end, waiting and all.', duration),
    text('error', 'derived', 'Why it failed.'),
    text('engine', 'derived', 'resident or gateway: whose model answers.'),
    text('model', 'derived', 'The model that answers.'),
  ],
};
