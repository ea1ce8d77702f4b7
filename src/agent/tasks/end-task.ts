import type { Store, Tx } from '../../store/index.ts';
import type { ReceiptStore, SignalStore, TurnTotals, StoreSessions } from '../services.ts';
import type { NewTurnEvent } from '../shapes/turn-event.ts';
import { partId, readPart } from './parts.ts';
import type { TaskRow } from './rows.ts';
import { describeTurnEvent } from './task-texts.ts';

export type FinalTurnEvent = Extract<NewTurnEvent, { type: 'answer' | 'aborted' }>;

export interface TaskEndServices {
  readonly store: Store;
  readonly sessions: Pick<StoreSessions, 'close'>;
  readonly receipts: Pick<ReceiptStore, 'add'>;
  readonly signals: SignalStore;
}

export class TaskAlreadyEnded extends Error {
  constructor(id: string) {
    super(`the task ${id} has ended already`);
    this.name = 'TaskAlreadyEnded';
  }
}

/** Stores the end of a task, its receipt and its signal, in the transaction that writes the final event. */
export async function endTask(
  { store, sessions, receipts, signals }: TaskEndServices,
  tx: Tx,
  id: string,
  event: FinalTurnEvent,
  totals: TurnTotals,
): Promise<void> {
  const state = event.type === 'answer' ? 'completed' : event.reason === 'cancelled' ? 'cancelled' : 'failed';
  const { type: _, ...result } = event;
  const before = await tx
    .selectFrom('tasks')
    .select(['part', 'turns', 'prompt_tokens', 'completion_tokens'])
    .where('id', '=', id)
    .executeTakeFirstOrThrow();
  const row = await tx
    .updateTable('tasks')
    .set({
      state,
      outcome: event.type === 'answer' ? 'answer' : event.reason,
      ended_at: store.time(),
      last_event: describeTurnEvent(event) ?? null,
      result: JSON.stringify(result),
      ...sumOfParts(before, totals),
    })
    .where('id', '=', id)
    .where('state', '=', 'running')
    .returningAll()
    .executeTakeFirstOrThrow(() => new TaskAlreadyEnded(id));
  const { agent, title, cwd, ended_at, session_id, outcome } = row;
  const { startedAt } = await readPart(tx, row);
  const { usage } = totals;
  await receipts.add(tx, {
    id: partId(id, row.part),
    kind: 'task',
    outcome: state,
    started_at: startedAt,
    ended_at: ended_at ?? store.time(),
    title,
    agent,
    ...(cwd === null ? {} : { cwd }),
    ...(usage ? { tokens: { prompt: usage.prompt_tokens, completion: usage.completion_tokens } } : {}),
    ...(event.type === 'aborted' ? { close_reason: event.reason } : {}),
    ...(row.parent === null ? {} : { parent: row.parent }),
    ...(await delegatedBy(tx, id)),
  });
  await signals.emit(tx, `task.${state}`, { id, agent, title, part: row.part, outcome });
  if (session_id !== null) await sessions.close(tx, session_id);
}

/** Tasks that a task or run handed work on to, for its receipt. */
export async function delegatedBy(tx: Tx, id: string): Promise<{ delegated?: string }> {
  const rows = await tx.selectFrom('tasks').select('id').where('parent', '=', id).orderBy('n').execute();
  return rows.length === 0 ? {} : { delegated: rows.map((row) => row.id).join(',') };
}

/** Totals of all parts. Tokens are known only when all parts know them. */
function sumOfParts(
  before: Pick<TaskRow, 'part' | 'turns' | 'prompt_tokens' | 'completion_tokens'>,
  { turns, usage }: TurnTotals,
): Pick<TaskRow, 'turns' | 'prompt_tokens' | 'completion_tokens'> {
  const sum = (earlier: number | null, later: number | undefined) =>
    later === undefined ? null : before.part === 1 ? later : earlier === null ? null : earlier + later;
  return {
    turns: before.turns + turns,
    prompt_tokens: sum(before.prompt_tokens, usage?.prompt_tokens),
    completion_tokens: sum(before.completion_tokens, usage?.completion_tokens),
  };
}
