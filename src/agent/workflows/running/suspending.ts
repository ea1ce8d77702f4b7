import type { Tx } from '../../../store/index.ts';
import type { Entry } from '../definition/ensemble.ts';
import { nextFiring } from '../definition/schedule.ts';
import { endedEvent } from '../../last-event.ts';
import { CancelledMeanwhile, type Ending } from './ending.ts';
import { cycleOf, findRun } from './rows.ts';
import type { Segment } from './segment.ts';
import { entryGate, readGate, type StoredGate } from './stored-gate.ts';

/** How far the wall clock may go back for a firing that has happened not to happen again. */
const sameFiringMs = 24 * 3600 * 1000;

/** When a schedule fires next: not again at what it fired at, though the wall clock may have gone back a little. */
export function nextDue(cron: string, tz: string, now: Date, firedAt: string | undefined): Date | undefined {
  const fired = firedAt === undefined ? 0 : Date.parse(firedAt);
  const ahead = fired - now.getTime();
  return nextFiring(cron, tz, ahead > 0 && ahead < sameFiringMs ? new Date(fired) : now);
}

/** The entry of a workflow, where its run waits for the next cycle. */
export function nextEntry(entry: Entry, now: Date, firedAt: string | undefined): StoredGate {
  const next = entry.kind === 'schedule' ? nextDue(entry.cron, entry.tz, now, firedAt) : undefined;
  return entryGate(entry, { now, next, firedAt });
}

/** It waits as the database has it: the connection was lost while that was being saved. */
export class SuspendedAlready extends Error {
  readonly gate: StoredGate;
  constructor(gate: StoredGate) {
    super('the run is suspended already');
    this.name = 'SuspendedAlready';
    this.gate = gate;
  }
}

export type SuspendKind = 'interior_gate' | 'entry_gate' | 'crash';

/**
 * Ends the segment; the run waits at the gate, over restarts too.
 * @param cycle how a cycle ended, at the entry
 * @throws CancelledMeanwhile, SuspendedAlready
 */
export async function suspend(
  { writer, row, world }: Segment,
  gate: StoredGate,
  suspend_kind: SuspendKind,
  cycle?: Ending,
): Promise<void> {
  const { result, error } = cycle ?? {};
  const event = {
    type: 'run_end',
    outcome: 'suspended',
    waiting_on: gate.kind,
    ...(result === undefined ? {} : { result }),
    ...(error === undefined ? {} : { error }),
  } as const;
  await writer.appendWith(event, async (tx) => {
    const last_event = cycle ? cycleEvent(cycleOf(row), cycle) : waitEvent(gate);
    const suspended = await tx
      .updateTable('runs')
      .set({
        state: 'suspended',
        waiting_on: gate.kind,
        suspend_kind,
        gate: JSON.stringify(gate),
        resumed: 0,
        last_event,
      })
      .where('id', '=', row.id)
      .where('state', '=', 'running')
      .where('requested', 'is distinct from', 'cancel')
      .executeTakeFirst();
    if (suspended.numUpdatedRows === 0n) {
      const now = await findRun(tx, row.id);
      const waiting = now?.state === 'suspended' ? readGate(now.gate) : undefined;
      throw waiting ? new SuspendedAlready(waiting) : new CancelledMeanwhile();
    }
    if (suspend_kind === 'crash') await interruptOpenStep(tx, row.id);
    if (!cycle) return;
    await failOpenSteps(tx, row.id, world.store.time());
    await world.signals.emit(tx, `run.${cycle.outcome}`, {
      id: row.id,
      workflow: row.workflow,
      outcome: cycle.outcome,
      cycle: cycleOf(row),
    });
  });
}

async function failOpenSteps(tx: Tx, id: string, ended_at: string): Promise<void> {
  await tx
    .updateTable('run_steps')
    .set({ state: 'failed', ended_at })
    .where('run_id', '=', id)
    .where('state', 'in', ['running', 'waiting', 'interrupted'])
    .execute();
}

async function interruptOpenStep(tx: Tx, id: string): Promise<void> {
  await tx
    .updateTable('run_steps')
    .set({ state: 'interrupted' })
    .where('run_id', '=', id)
    .where('state', '=', 'running')
    .execute();
}

const cycleEvent = (cycle: number, { outcome, error }: Ending): string =>
  endedEvent(`cycle ${cycle} ${outcome}`, error);

const waitEvent = ({ kind, step }: StoredGate): string => `waits at '${step ?? 'the entry'}' (${kind})`;
