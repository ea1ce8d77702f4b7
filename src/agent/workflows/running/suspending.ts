import type { Tx } from '../../../store/index.ts';
import type { Entry } from '../definition/ensemble.ts';
import { nextFiring } from '../definition/schedule.ts';
import { endedEvent } from '../../last-event.ts';
import { CancelledMeanwhile, type Ending } from './ending.ts';
import { cycleOf, findRun } from './rows.ts';
import type { Segment } from './segment.ts';
import { entryGate, readGate, type StoredGate } from './stored-gate.ts';

/** Backward jump of the wall clock up to which a firing is not repeated. */
const sameFiringMs = 24 * 3600 * 1000;

/** The next firing of a schedule. A small backward jump of the wall clock does not repeat the last firing. */
export function nextDue(cron: string, tz: string, now: Date, firedAt: string | undefined): Date | undefined {
  const fired = firedAt === undefined ? 0 : Date.parse(firedAt);
  const ahead = fired - now.getTime();
  return nextFiring(cron, tz, ahead > 0 && ahead < sameFiringMs ? new Date(fired) : now);
}

/** The entry gate at which a run waits for its next cycle. */
export function nextEntry(entry: Entry, now: Date, firedAt: string | undefined): StoredGate {
  const next = entry.kind === 'schedule' ? nextDue(entry.cron, entry.tz, now, firedAt) : undefined;
  return entryGate(entry, { now, next, firedAt });
}

/** The suspension is already stored, by an attempt whose commit was not confirmed. */
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
 * Ends the segment and suspends the run at a gate, which survives restarts.
 * @param cycle outcome of the ended cycle, for the entry gate
 * @throws CancelledMeanwhile, RunAlreadySuspended
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
