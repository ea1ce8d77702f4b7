import type { EventLog } from '../../event-log.ts';
import type { NewRunEvent } from '../../shapes/run.ts';
import type { Tx } from '../../../store/index.ts';
import { type Ending, endEvent, endRun } from './ending.ts';
import type { Opening } from './opening.ts';
import { changeRun, cycleOf, type RunRow } from './rows.ts';
import { readGate } from './stored-gate.ts';
import type { RunWorld } from './world.ts';

/** A stored segment whose execution has not started. */
export interface Dispatched {
  readonly row: RunRow;
  readonly nextSeq: number;
}

export const startEvent = ({ id, workflow, digest, session_id }: RunRow): NewRunEvent => ({
  type: 'run_start',
  run_id: id,
  workflow,
  digest,
  ...(session_id === null ? {} : { session_id }),
});

/** Opens the next segment of a suspended run; undefined when it has left that gate. */
export async function dispatch(
  { store, log }: Pick<RunWorld, 'store' | 'log'>,
  before: RunRow,
  { inputs, failure }: Opening,
  act: { readonly verb: 'run.resume' | 'run.run_now' | 'run.continue'; readonly by: string },
): Promise<Dispatched | undefined> {
  const gate = readGate(before.gate);
  return await store.transaction(async (tx) => {
    const row = await changeRun(tx, before.id, ['suspended'], {
      state: 'running',
      resumed: 1,
      waiting_on: null,
      suspend_kind: null,
      gate: null,
      ...(gate?.step === undefined
        ? { wrapper_cycle: cycleOf(before) + 1, last_event: `cycle ${cycleOf(before) + 1} began` }
        : { last_event: `continued at '${gate.step}' (${gate.kind})` }),
    });
    if (!row) return undefined;
    if (gate?.step !== undefined) {
      const change = failure === undefined ? { state: 'running' as const } : failed(failure, store.time());
      await tx
        .updateTable('run_steps')
        .set({ ...change, ...(inputs === undefined ? {} : { gate_inputs: JSON.stringify(inputs) }) })
        .where('run_id', '=', row.id)
        .where('cycle', '=', cycleOf(row))
        .where('step', '=', gate.step)
        .execute();
    }
    let seq = await addLine(tx, log, row, startEvent(row));
    if (gate?.step !== undefined && failure !== undefined)
      seq = await addLine(tx, log, row, {
        type: 'step_end',
        step: gate.step,
        outcome: 'failed',
        error: failure,
      });
    await store.act(tx, {
      ...act,
      target: row.id,
      outcome: 'applied',
      ...(gate ? { reason: gate.kind } : {}),
    });
    return { row, nextSeq: seq + 1 };
  });
}

const failed = (error: string, ended_at: string) => ({ state: 'failed' as const, error, ended_at });

/** Ends a suspended run, in a segment of its own; false when it is no longer suspended. */
export async function endSuspended(
  world: Pick<RunWorld, 'store' | 'log' | 'sessions' | 'receipts' | 'signals'>,
  id: string,
  ending: Ending,
  by: string,
): Promise<boolean> {
  const { store, log } = world;
  return await store.transaction(async (tx) => {
    const row = await changeRun(tx, id, ['suspended'], { requested: null });
    if (!row) return false;
    await addLine(tx, log, row, startEvent(row));
    await addLine(tx, log, row, endEvent(ending));
    await endRun(tx, world, id, ending);
    await store.act(tx, { verb: 'run.cancel', target: id, by, outcome: 'applied' });
    return true;
  });
}

async function addLine(tx: Tx, log: EventLog, { id }: RunRow, event: NewRunEvent): Promise<number> {
  const seq = await log.nextSeq(tx, id);
  await log.insert(tx, id, seq, event);
  return seq;
}
