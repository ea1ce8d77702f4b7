import { describeOutcome } from '../../last-event.ts';
import type { NewRunEvent } from '../../shapes/run.ts';
import type { Tx } from '../../../store/index.ts';
import { delegatedBy } from '../../tasks/end-task.ts';
import { findRun, type RunRow } from './rows.ts';
import type { RunServices } from './run-services.ts';

export interface RunOutcome {
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
export class RunAlreadyEnded extends Error {
  constructor(id: string) {
    super(`the run ${id} has ended already`);
    this.name = 'RunAlreadyEnded';
  }
}

export const runEndEvent = ({
  outcome,
  result,
  error,
}: RunOutcome): Extract<NewRunEvent, { type: 'run_end' }> => ({
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
  { store, sessions, receipts, signals }: Pick<RunServices, 'store' | 'sessions' | 'receipts' | 'signals'>,
  id: string,
  runOutcome: RunOutcome,
): Promise<void> {
  const { outcome, result, error } = runOutcome;
  const endedAt = store.time();
  let update = tx
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
      last_event: describeOutcome(outcome, error),
    })
    .where('id', '=', id)
    .where('ended_at', 'is', null);
  if (outcome !== 'cancelled') update = update.where('requested', 'is distinct from', 'cancel');
  const row = await update.returningAll().executeTakeFirst();
  if (!row) {
    const isEnded = (await findRun(tx, id))?.ended_at !== null;
    throw isEnded ? new RunAlreadyEnded(id) : new CancelledMeanwhile();
  }
  await tx
    .updateTable('run_steps')
    .set({ state: outcome === 'cancelled' ? 'cancelled' : 'failed', ended_at: endedAt })
    .where('run_id', '=', id)
    .where('state', 'in', ['running', 'waiting', 'interrupted'])
    .execute();
  if (row.session_id !== null) await sessions.close(tx, row.session_id);
  await receipts.add(tx, { ...toReceiptBody(row, outcome, endedAt), ...(await delegatedBy(tx, id)) });
  await signals.emit(tx, `run.${outcome}`, { id, workflow: row.workflow, outcome });
}

function toReceiptBody(row: RunRow, outcome: RunOutcome['outcome'], endedAt: string) {
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
export const shortenMessage = (text: string): string => (text.length > 500 ? `${text.slice(0, 499)}…` : text);
