import type { Surface } from '../types.ts';
import {
  endpointColumn,
  integer,
  json,
  ms,
  claimedValue,
  measuredValue,
  required,
  text,
  time,
  tokens,
} from './columns.ts';
import { jsonInteger, jsonText, msBetween, queryTime, rowNumberColumn, sqlTemplate } from './sql.ts';

const receipt = 't.receipt';

export const receipts: Surface = {
  name: 'receipts',
  description: 'Signed receipts of finished tasks, runs and external sessions.',
  key: ['id'],
  time: 'ended_at',
  source: {
    from: sqlTemplate`(select r.*, coalesce(k.engine, n.engine) as engine, ${jsonText('r.receipt', 'started_at')} as began_at${rowNumberColumn('r')} from receipts as r left join tasks as k on k.id = r.id left join runs as n on n.id = r.id)`,
    tables: ['receipts', 'tasks', 'runs'],
  },
  columns: [
    text('id', 'derived', 'Id of the task, run or external session.', required),
    endpointColumn,
    integer('seq', 'derived', 'Position in the host’s chain of receipts, from 1.', required),
    text('kind', 'derived', 'task, run or external.', required),
    text('outcome', 'derived', 'completed, failed or cancelled.', { sql: jsonText(receipt, 'outcome') }),
    text('close_reason', 'derived', 'Why the work ended, if it did not simply complete.', {
      sql: jsonText(receipt, 'close_reason'),
    }),
    time('started_at', 'measured', 'When the work started.', { sql: 't.began_at' }),
    time('ended_at', 'measured', 'When the work ended.', required),
    integer('duration_ms', 'derived', 'From start to end.', {
      ...ms,
      sql: msBetween('t.began_at', 't.ended_at'),
    }),
    text('agent', 'derived', 'Agent of a task.', { sql: jsonText(receipt, 'agent') }),
    text('workflow', 'derived', 'Workflow of a run.', { sql: jsonText(receipt, 'workflow') }),
    text('harness', 'claimed', 'Program of an external session.', { sql: jsonText(receipt, 'harness') }),
    text('client', 'claimed', 'Client that an external session works for.', {
      sql: jsonText(receipt, 'client'),
    }),
    integer('exit_code', 'claimed', 'Exit code of an external session.', {
      sql: jsonInteger(receipt, undefined, 'exit_code'),
    }),
    text('summary', 'claimed', 'Summary that an external session reported.', {
      sql: jsonText(receipt, 'summary'),
      readOnly: true,
    }),
    integer('prompt_tokens', 'measured', 'Counted by the host.', {
      ...tokens,
      sql: measuredValue(jsonInteger(receipt, 'tokens', 'prompt'), 't.engine'),
    }),
    integer('completion_tokens', 'measured', 'Counted by the host.', {
      ...tokens,
      sql: measuredValue(jsonInteger(receipt, 'tokens', 'completion'), 't.engine'),
    }),
    integer(
      'prompt_tokens_claimed',
      'claimed',
      'Reported by the external session, or by the gateway whose model answered.',
      {
        ...tokens,
        sql: sqlTemplate`coalesce(${jsonInteger(receipt, 'tokens_claimed', 'prompt')}, ${claimedValue(jsonInteger(receipt, 'tokens', 'prompt'), 't.engine')})`,
      },
    ),
    integer(
      'completion_tokens_claimed',
      'claimed',
      'Reported by the external session, or by the gateway whose model answered.',
      {
        ...tokens,
        sql: sqlTemplate`coalesce(${jsonInteger(receipt, 'tokens_claimed', 'completion')}, ${claimedValue(jsonInteger(receipt, 'tokens', 'completion'), 't.engine')})`,
      },
    ),
  ],
};

export const pending: Surface = {
  name: 'pending',
  description: 'Changes that wait or waited for a decision of a person.',
  key: ['id'],
  time: 'created_at',
  source: { from: 'pending', tables: ['pending'] },
  columns: [
    text('id', 'derived', 'Id of the change.', required),
    endpointColumn,
    text('state', 'derived', 'staged, applying, applied, discarded, expired or failed.', required),
    text('kind', 'derived', 'file_write, file_delete, exec or tool_call.', required),
    text('tool', 'derived', 'Tool that proposed the change.', required),
    text('risk', 'derived', 'low, medium or high.', required),
    text('agent', 'derived', 'Agent that proposed the change.', required),
    text('summary', 'derived', 'What the change does, on one line.', required),
    text('intent', 'claimed', 'Reason that the model gave.', { ...required, readOnly: true }),
    text('path', 'claimed', 'File path as the model wrote it.'),
    text('task_id', 'derived', 'Task of the change.'),
    text('run_id', 'derived', 'Run of the change.'),
    text('step', 'derived', 'Step of the run.'),
    time('created_at', 'measured', 'When the change was proposed.', required),
    time('expires_at', 'derived', 'When the change expires if nobody decides.', required),
    time('decided_at', 'measured', 'When somebody decided, or the change expired.'),
    text('decided_by', 'derived', 'operator, session:ID, peer:NAME, local, agent:NAME or host.'),
    integer('decision_ms', 'derived', 'From the proposal to the decision.', {
      ...ms,
      sql: msBetween('t.created_at', 't.decided_at'),
    }),
    integer('age_ms', 'derived', 'For waiting changes: from the proposal until now.', {
      ...ms,
      sql: sqlTemplate`(case when t.state = 'staged' then ${msBetween('t.created_at', queryTime)} end)`,
    }),
    text('applier', 'derived', 'Host that applies or applied the change.'),
  ],
};

export const acts: Surface = {
  name: 'acts',
  description: 'Audit log of acts, applied and refused.',
  key: ['seq'],
  time: 'at',
  source: { from: 'acts', tables: ['acts'] },
  columns: [
    integer('seq', 'derived', 'Sequence number over all acts.', required),
    time('at', 'measured', 'When the act happened.', required),
    endpointColumn,
    text('verb', 'derived', 'approve, discard, revoke, run.cancel and so on.', required),
    text('target', 'derived', 'Target of the act.', required),
    text('by', 'derived', 'operator, session:ID, peer:NAME, local, agent:NAME or host.', required),
    text('outcome', 'derived', 'applied or refused.', required),
    text('reason', 'derived', 'Why the act was refused, or why it happened.'),
    text('note', 'claimed', 'Note of the person.', { readOnly: true }),
    json('details', 'derived', 'Further details.'),
  ],
};
