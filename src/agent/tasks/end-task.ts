import type { Store, Tx } from '../../store/index.ts';
import type { ReceiptStore, SignalStore, TurnTotals, StoreSessions } from '../services.ts';
import type { NewTurnEvent } from '../shapes/turn-event.ts';
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
  const row = await tx
    .updateTable('tasks')
    .set({
      state,
      outcome: event.type === 'answer' ? 'answer' : event.reason,
      ended_at: store.time(),
      last_event: describeTurnEvent(event) ?? null,
      result: JSON.stringify(result),
      turns: totals.turns,
      prompt_tokens: totals.usage?.prompt_tokens ?? null,
      completion_tokens: totals.usage?.completion_tokens ?? null,
    })
    .where('id', '=', id)
    .where('state', '=', 'running')
    .returningAll()
    .executeTakeFirstOrThrow(() => new TaskAlreadyEnded(id));
  const { agent, title, cwd, started_at, ended_at, session_id, outcome } = row;
  const { usage } = totals;
  await receipts.add(tx, {
    id,
    kind: 'task',
    outcome: state,
    started_at,
    ended_at: ended_at ?? store.time(),
    title,
    agent,
    ...(cwd === null ? {} : { cwd }),
    ...(usage ? { tokens: { prompt: usage.prompt_tokens, completion: usage.completion_tokens } } : {}),
    ...(event.type === 'aborted' ? { close_reason: event.reason } : {}),
  });
  await signals.emit(tx, `task.${state}`, { id, agent, title, outcome });
  if (session_id !== null) await sessions.close(tx, session_id);
}
