import type { EventLog } from '../../event-log.ts';
import type { NewRunEvent } from '../../shapes/run.ts';
import type { Tx } from '../../../store/index.ts';
import { type RunOutcome, runEndEvent, endRun } from './end-run.ts';
import type { GateOpening } from './wait-for-gate.ts';
import { updateRun, currentCycle, type RunRow } from './rows.ts';
import { parseGate } from './stored-gate.ts';
import type { RunServices } from './run-services.ts';

/** A stored segment whose execution has not started. */
export interface DispatchedSegment {
  readonly row: RunRow;
  readonly nextSeq: number;
}

export const runStartEvent = ({ id, workflow, digest, session_id }: RunRow): NewRunEvent => ({
  type: 'run_start',
  run_id: id,
  workflow,
  digest,
  ...(session_id === null ? {} : { session_id }),
});

/** Opens the next segment of a suspended run; undefined when it has left that gate. */
export async function dispatchSegment(
  { store, log, signals }: Pick<RunServices, 'store' | 'log' | 'signals'>,
  suspended: RunRow,
  { inputs, failure }: GateOpening,
  act: { readonly verb: 'run.resume' | 'run.run_now' | 'run.continue'; readonly by: string },
): Promise<DispatchedSegment | undefined> {
  const gate = parseGate(suspended.gate);
  return await store.transaction(async (tx) => {
    const row = await updateRun(tx, suspended.id, ['suspended'], {
      state: 'running',
      resumed: 1,
      waiting_on: null,
      suspend_kind: null,
      gate: null,
      ...(gate?.step === undefined
        ? {
            wrapper_cycle: currentCycle(suspended) + 1,
            last_event: `cycle ${currentCycle(suspended) + 1} began`,
          }
        : { last_event: `continued at '${gate.step}' (${gate.kind})` }),
    });
    if (!row) return undefined;
    if (gate?.step !== undefined) {
      const change =
        failure === undefined
          ? // A person knows what the interrupted attempt may have done.
            {
              state: 'running' as const,
              ...(suspended.suspend_kind === 'crash' ? { side_effects: 0 as const } : {}),
            }
          : failedColumns(failure, store.time());
      await tx
        .updateTable('run_steps')
        .set({ ...change, ...(inputs === undefined ? {} : { gate_inputs: JSON.stringify(inputs) }) })
        .where('run_id', '=', row.id)
        .where('cycle', '=', currentCycle(row))
        .where('step', '=', gate.step)
        .execute();
    }
    let seq = await appendEvent(tx, log, row, runStartEvent(row));
    const { id, workflow } = row;
    await signals.emit(tx, 'run.resumed', { id, workflow });
    if (gate?.step !== undefined && failure !== undefined) {
      const { step } = gate;
      seq = await appendEvent(tx, log, row, { type: 'step_end', step, outcome: 'failed', error: failure });
      await signals.emit(tx, 'run.step_ended', { id, workflow, step, outcome: 'failed' });
    }
    await store.appendAct(tx, {
      ...act,
      target: row.id,
      outcome: 'applied',
      ...(gate ? { reason: gate.kind } : {}),
    });
    return { row, nextSeq: seq + 1 };
  });
}

const failedColumns = (error: string, ended_at: string) => ({ state: 'failed' as const, error, ended_at });

/** Ends a suspended run, in a segment of its own; false when it is no longer suspended. */
export async function endSuspended(
  services: Pick<RunServices, 'store' | 'log' | 'sessions' | 'receipts' | 'signals'>,
  id: string,
  runOutcome: RunOutcome,
  by: string,
): Promise<boolean> {
  const { store, log } = services;
  return await store.transaction(async (tx) => {
    const row = await updateRun(tx, id, ['suspended'], { requested: null });
    if (!row) return false;
    await appendEvent(tx, log, row, runStartEvent(row));
    await appendEvent(tx, log, row, runEndEvent(runOutcome));
    await endRun(tx, services, id, runOutcome);
    await store.appendAct(tx, { verb: 'run.cancel', target: id, by, outcome: 'applied' });
    return true;
  });
}

async function appendEvent(tx: Tx, log: EventLog, { id }: RunRow, event: NewRunEvent): Promise<number> {
  const seq = await log.nextSeq(tx, id);
  await log.insert(tx, id, seq, event);
  return seq;
}
