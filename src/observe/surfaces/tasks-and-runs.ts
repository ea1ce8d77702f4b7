import type { Surface } from '../types.ts';
import { endpointColumn, flag, integer, ms, required, text, time, tokenColumns } from './columns.ts';
import { jsonText, msBetween, queryTime, rowNumberColumn, sqlTemplate } from './sql.ts';

const duration = { ...ms, sql: msBetween('t.started_at', 't.ended_at') };
const gateSince = jsonText('t.gate', 'since_at');
const gateWaitMs = {
  sqlite: msBetween(gateSince.sqlite, queryTime).sqlite,
  postgres: msBetween(gateSince.postgres, queryTime).postgres,
};
const tokens = tokenColumns('t.engine', 'Prompt tokens of all turns', 'Completion tokens of all turns');

export const tasks: Surface = {
  name: 'tasks',
  description: 'Tasks of agents and their outcomes.',
  key: ['id'],
  time: 'started_at',
  source: { from: 'tasks', tables: ['tasks'] },
  columns: [
    text('id', 'derived', 'Task id.', required),
    endpointColumn,
    text('agent', 'derived', 'Agent that works on the task.', required),
    text('title', 'derived', 'Beginning of the prompt.', required),
    text('state', 'derived', 'running, completed or failed.', required),
    text('outcome', 'derived', 'answer, or why the task was aborted.'),
    text('failure', 'derived', 'Failure message.', {
      sql: `(case when t.state = 'failed' then t.last_event end)`,
    }),
    time('started_at', 'measured', 'When the task was accepted.', required),
    time('ended_at', 'measured', 'When the task ended.'),
    integer('duration_ms', 'derived', 'From start to end.', duration),
    integer('turns', 'measured', 'Number of model answers.', { ...required, unit: 'turns' }),
    ...tokens,
    text('engine', 'derived', 'Where the model runs: resident or gateway.', required),
    text('model', 'derived', 'Model that answers.', required),
    text('cwd', 'claimed', 'Folder named in the request.'),
    text('last_event', 'derived', 'Last event on one line.'),
    text('session_id', 'derived', 'Store session, by which the task can be revoked.'),
  ],
};

export const runs: Surface = {
  name: 'runs',
  description: 'Workflow runs: states, gates and outcomes.',
  key: ['id'],
  time: 'started_at',
  source: { from: 'runs', tables: ['runs'] },
  columns: [
    text('id', 'derived', 'Run id.', required),
    endpointColumn,
    text('workflow', 'derived', 'Workflow name.', required),
    text('source_digest', 'derived', 'Digest of the source that the run started with.', {
      ...required,
      sql: 't.digest',
    }),
    text('state', 'derived', 'running, paused, suspended, completed, failed or cancelled.', required),
    text('failure', 'derived', 'Failure message.', {
      sql: `(case when t.state = 'failed' then t.last_event end)`,
    }),
    text('waiting_on', 'derived', 'input, time, value, schedule, armed, approval or event.'),
    text('waiting_step', 'derived', 'Step whose gate the run waits at; null for the entry gate.', {
      sql: jsonText('t.gate', 'step'),
    }),
    time('waiting_since', 'measured', 'When the run reached the gate.', { sql: gateSince }),
    integer('waiting_ms', 'derived', 'For runs at a gate: time since then.', {
      ...ms,
      sql: sqlTemplate`(case when t.state = 'suspended' then ${gateWaitMs} end)`,
    }),
    time('waiting_until', 'derived', 'When a time gate or a schedule opens.', {
      sql: sqlTemplate`(case when t.waiting_on in ('time', 'schedule') then ${jsonText('t.gate', 'until_at')} end)`,
    }),
    text('suspend_kind', 'derived', 'interior_gate, entry_gate or crash.'),
    integer('cycle', 'measured', 'For scheduled and armed runs: number of cycles so far.', {
      sql: 't.wrapper_cycle',
    }),
    text('requested', 'derived', 'pause or cancel, to be carried out at the next step.'),
    text('retried_from', 'derived', 'Run that this run retries.'),
    time('started_at', 'measured', 'When the run was accepted.', required),
    time('ended_at', 'measured', 'When the run ended.'),
    integer('duration_ms', 'derived', 'From start to end, including waits.', duration),
    ...tokens,
    text('engine', 'derived', 'Where the model runs: resident or gateway.'),
    text('model', 'derived', 'Model that answers.'),
    text('last_event', 'derived', 'Last event on one line.'),
    text('session_id', 'derived', 'Store session, by which the run can be revoked.'),
  ],
};

export const steps: Surface = {
  name: 'steps',
  description: 'Steps of workflow runs.',
  key: ['run_id', 'cycle', 'step'],
  time: 'started_at',
  source: {
    from: sqlTemplate`(select s.*, r.workflow, r.endpoint_id, r.engine, r.model${rowNumberColumn('s')} from run_steps as s left join runs as r on r.id = s.run_id)`,
    tables: ['run_steps', 'runs'],
  },
  columns: [
    text('run_id', 'derived', 'Run that the step belongs to.', required),
    integer('cycle', 'derived', 'Cycle of a scheduled or armed run; otherwise 0.', required),
    text('step', 'derived', 'Step name in the workflow.', required),
    integer('position', 'derived', 'Position among the steps, from 0.', required),
    text('endpoint_id', 'derived', 'Host of the step.'),
    text('workflow', 'derived', 'Workflow name.'),
    text(
      'state',
      'derived',
      'running, waiting, completed, failed, skipped, cancelled or interrupted.',
      required,
    ),
    integer('attempts', 'measured', 'Number of attempts.', { ...required, unit: 'attempts' }),
    flag('side_effects', 'measured', 'Whether the step may have changed something.', required),
    time('started_at', 'measured', 'When the step started, or reached its gate.', required),
    time('ended_at', 'measured', 'When the step ended.'),
    integer('duration_ms', 'derived', 'From start to end, including waits.', duration),
    text('error', 'derived', 'Why the step failed.'),
    text('engine', 'derived', 'Where the model runs: resident or gateway.'),
    text('model', 'derived', 'Model that answers.'),
  ],
};
