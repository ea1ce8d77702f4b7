import type { Surface } from '../types.ts';
import {
  endpoint,
  integer,
  json,
  ms,
  othersFigure,
  ownFigure,
  required,
  text,
  time,
  tokens,
} from './columns.ts';
import { jsonInteger, jsonText, msBetween, queryTime, tickOf, written } from './sql.ts';

const receipt = 't.receipt';

export const receipts: Surface = {
  name: 'receipts',
  description: 'The signed receipts of work that ended.',
  key: ['id'],
  time: 'ended_at',
  source: {
    from: written`(select r.*, coalesce(k.engine, n.engine) as engine, ${jsonText('r.receipt', 'started_at')} as began_at${tickOf('r')} from receipts as r left join tasks as k on k.id = r.id left join runs as n on n.id = r.id)`,
    tables: ['receipts', 'tasks', 'runs'],
  },
  columns: [
    text('id', 'derived', 'Of the task, the run or the external session.', required),
    endpoint,
    integer('seq', 'derived', 'Its place in the chain of its host, from 1.', required),
    text('kind', 'derived', 'task, run or external.', required),
    text('outcome', 'derived', 'completed, failed or cancelled.', { sql: jsonText(receipt, 'outcome') }),
    text('close_reason', 'derived', 'Why it ended, where it did not simply complete.', {
      sql: jsonText(receipt, 'close_reason'),
    }),
    time('started_at', 'measured', 'When the work began.', { sql: 't.began_at' }),
    time('ended_at', 'measured', 'When it ended.', required),
    integer('duration_ms', 'derived', 'From its start to its end.', {
      ...ms,
      sql: msBetween('t.began_at', 't.ended_at'),
    }),
    text('agent', 'derived', 'Of a task.', { sql: jsonText(receipt, 'agent') }),
    text('workflow', 'derived', 'Of a run.', { sql: jsonText(receipt, 'workflow') }),
    text('harness', 'claimed', 'The program of an external one.', { sql: jsonText(receipt, 'harness') }),
    text('client', 'claimed', 'On whose behalf, of an external one.', { sql: jsonText(receipt, 'client') }),
    integer('exit_code', 'claimed', 'Of an external one.', {
      sql: jsonInteger(receipt, undefined, 'exit_code'),
    }),
    text('summary', 'claimed', 'What an external one says of itself.', {
      sql: jsonText(receipt, 'summary'),
      readOnly: true,
    }),
    integer('prompt_tokens', 'measured', 'As the host counted.', {
      ...tokens,
      sql: ownFigure(jsonInteger(receipt, 'tokens', 'prompt'), 't.engine'),
    }),
    integer('completion_tokens', 'measured', 'As the host counted.', {
      ...tokens,
      sql: ownFigure(jsonInteger(receipt, 'tokens', 'completion'), 't.engine'),
    }),
    integer(
      'prompt_tokens_claimed',
      'claimed',
      'As the external one says, or the gateway whose model answered.',
      {
        ...tokens,
        sql: written`coalesce(${jsonInteger(receipt, 'tokens_claimed', 'prompt')}, ${othersFigure(jsonInteger(receipt, 'tokens', 'prompt'), 't.engine')})`,
      },
    ),
    integer(
      'completion_tokens_claimed',
      'claimed',
      'As the external one says, or the gateway whose model answered.',
      {
        ...tokens,
        sql: written`coalesce(${jsonInteger(receipt, 'tokens_claimed', 'completion')}, ${othersFigure(jsonInteger(receipt, 'tokens', 'completion'), 't.engine')})`,
      },
    ),
  ],
};

export const pending: Surface = {
  name: 'pending',
  description: 'Changes that wait for a person, or waited for one.',
  key: ['id'],
  time: 'created_at',
  source: { from: 'pending', tables: ['pending'] },
  columns: [
    text('id', 'derived', 'Of the change.', required),
    endpoint,
    text('state', 'derived', 'staged, applying, applied, discarded, expired or failed.', required),
    text('kind', 'derived', 'file_write, file_delete, exec or tool_call.', required),
    text('tool', 'derived', 'Whose change it is.', required),
    text('risk', 'derived', 'low, medium or high.', required),
    text('agent', 'derived', 'Who proposes it.', required),
    text('summary', 'derived', 'What would happen, on one line.', required),
    text('intent', 'claimed', 'Why, as the model says.', { ...required, readOnly: true }),
    text('path', 'claimed', 'The file that it is about, as the model named it.'),
    text('task_id', 'derived', 'The task that it is of.'),
    text('run_id', 'derived', 'The run that it is of.'),
    text('step', 'derived', 'The step of the run.'),
    time('created_at', 'measured', 'When it was proposed.', required),
    time('expires_at', 'derived', 'When it goes away undecided.', required),
    time('decided_at', 'measured', 'When somebody decided, or it expired.'),
    text('decided_by', 'derived', 'operator, session:ID, peer:NAME, local, agent:NAME or host.'),
    integer('decision_ms', 'derived', 'From the proposal to the decision.', {
      ...ms,
      sql: msBetween('t.created_at', 't.decided_at'),
    }),
    integer('age_ms', 'derived', 'Of those that wait: from the proposal until now.', {
      ...ms,
      sql: written`(case when t.state = 'staged' then ${msBetween('t.created_at', queryTime)} end)`,
    }),
    text('applier', 'derived', 'The host that applies it, or did.'),
  ],
};

export const acts: Surface = {
  name: 'acts',
  description: 'Every act that somebody answers for, applied or refused.',
  key: ['seq'],
  time: 'at',
  source: { from: 'acts', tables: ['acts'] },
  columns: [
    integer('seq', 'derived', 'Its place among all acts.', required),
    time('at', 'measured', 'When it happened.', required),
    endpoint,
    text('verb', 'derived', 'approve, discard, revoke, run.cancel and so on.', required),
    text('target', 'derived', 'What it was done to.', required),
    text('by', 'derived', 'operator, session:ID, peer:NAME, local, agent:NAME or host.', required),
    text('outcome', 'derived', 'applied or refused.', required),
    text('reason', 'derived', 'Why it was refused, or why it happened.'),
    text('note', 'claimed', 'What the person wrote.', { readOnly: true }),
    json('details', 'derived', 'More about it.'),
  ],
};
