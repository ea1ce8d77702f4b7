import { endedEvent } from '../../last-event.ts';
import type { NewRunEvent } from '../../shapes/run.ts';
import type { Tx } from '../../../store/index.ts';
import { findRun, type RunRow } from './rows.ts';
import type { RunWorld } from './world.ts';

export interface Ending {
  readonly outcome: 'completed' | 'failed' | 'cancelled';
  readonly result?: unknown;
  readonly error?: string;
}

/** The run was about to end or suspend, but its cancellation was requested first. */
export class CancelledMeanwhile extends Error {
  constructor() {
    super('the run was cancelled meanwhile');
    this.name = 'CancelledMeanwhile';
  }
}

/** The end of the run is already stored, by an attempt whose commit was not confirmed. */
export class EndedAlready extends Error {
  constructor(id: string) {
    super(`the run ${id} has ended already`);
    this.name = 'EndedAlready';
  }
}

export const endEvent = ({ outcome, result, error }: Ending): Extract<NewRunEvent, { type: 'run_end' }> => ({
  type: 'run_end',
  outcome,
  ...(result === undefined ? {} : { result }),
  ...(error === undefined ? {} : { error }),
});

/**
 * Stores the end of a run, except its event: row, steps, session, receipt and signal.
 * @throws CancelledMeanwhile when its cancellation was requested and it ends otherwise; RunAlreadyEnded
 */
export async function endRun(
  tx: Tx,
  { store, sessions, receipts, signals }: Pick<RunWorld, 'store' | 'sessions' | 'receipts' | 'signals'>,
  id: string,
  ending: Ending,
): Promise<void> {
  const { outcome, result, error } = ending;
  const endedAt = store.time();
  let change = tx
    .updateTable('runs')
    .set({
      state: outcome,
      outcome,
      ended_at: endedAt,
      result: result === undefined ? null : JSON.stringify(result),
      waiting_on: null,
      suspend_kind: null,
      gate: null,
      requested: null,
      resumed: 0,
      last_event: endedEvent(outcome, error),
    })
    .where('id', '=', id)
    .where('ended_at', 'is', null);
  if (outcome !== 'cancelled') change = change.where('requested', 'is distinct from', 'cancel');
  const row = await change.returningAll().executeTakeFirst();
  if (!row) {
    const ended = (await findRun(tx, id))?.ended_at !== null;
    throw ended ? new EndedAlready(id) : new CancelledMeanwhile();
  }
  await tx
    .updateTable('run_steps')
    .set({ state: outcome === 'cancelled' ? 'cancelled' : 'failed', ended_at: endedAt })
    .where('run_id', '=', id)
    .where('state', 'in', ['running', 'waiting', 'interrupted'])
    .execute();
  if (row.session_id !== null) await sessions.close(tx, row.session_id);
  await receipts.add(tx, receiptOf(row, outcome, endedAt));
  await signals.emit(tx, `run.${outcome}`, { id, workflow: row.workflow, outcome });
}

function receiptOf(row: RunRow, outcome: Ending['outcome'], endedAt: string) {
  const { prompt_tokens: prompt, completion_tokens: completion } = row;
  return {
    id: row.id,
    kind: 'run' as const,
    outcome,
    started_at: row.started_at,
    ended_at: endedAt,
    workflow: row.workflow,
    ...(prompt === null || completion === null ? {} : { tokens: { prompt, completion } }),
  };
}

/** Shortens an error message for a row. */
export const shortened = (text: string): string => (text.length > 500 ? `${text.slice(0, 499)}…` : text);
