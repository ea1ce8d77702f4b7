import type { Tx } from '../../../store/index.ts';
import type { Entry } from '../definition/ensemble.ts';
import { findNextFiring } from '../definition/schedule.ts';
import { describeOutcome } from '../../last-event.ts';
import { CancelledMeanwhile, type RunOutcome } from './end-run.ts';
import { currentCycle, findRun } from './rows.ts';
import type { Segment } from './segment.ts';
import { createEntryGate, parseGate, type StoredGate } from './stored-gate.ts';

/** Backward jump of the wall clock up to which a firing is not repeated. */
const repeatedFiringWindowMs = 24 * 3600 * 1000;

/** The next firing of a schedule. A small backward jump of the wall clock does not repeat the last firing. */
export function nextFiringAfter(
  cron: string,
  tz: string,
  now: Date,
  firedAt: string | undefined,
): Date | undefined {
  const firedMs = firedAt === undefined ? 0 : Date.parse(firedAt);
  const clockBackMs = firedMs - now.getTime();
  return findNextFiring(
    cron,
    tz,
    clockBackMs > 0 && clockBackMs < repeatedFiringWindowMs ? new Date(firedMs) : now,
  );
}

/** The entry gate at which a run waits for its next cycle. */
export function nextEntryGate(entry: Entry, now: Date, firedAt: string | undefined): StoredGate {
  const next = entry.kind === 'schedule' ? nextFiringAfter(entry.cron, entry.tz, now, firedAt) : undefined;
  return createEntryGate(entry, { now, next, firedAt });
}

/** The suspension is already stored, by an attempt whose commit was not confirmed. */
export class RunAlreadySuspended extends Error {
  readonly gate: StoredGate;
  constructor(gate: StoredGate) {
    super('the run is suspended already');
    this.name = 'RunAlreadySuspended';
    this.gate = gate;
  }
}

export type SuspendKind = 'interior_gate' | 'entry_gate' | 'crash';

/**
 * Ends the segment and suspends the run at a gate, which survives restarts.
 * @param cycle outcome of the ended cycle, for the entry gate
 * @throws CancelledMeanwhile, RunAlreadySuspended
 */
export async function suspendRun(
  { writer, row, services }: Segment,
  gate: StoredGate,
  suspend_kind: SuspendKind,
  cycle?: RunOutcome,
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
    const last_event = cycle ? describeCycle(currentCycle(row), cycle) : describeWait(gate);
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
      const current = await findRun(tx, row.id);
      const storedGate = current?.state === 'suspended' ? parseGate(current.gate) : undefined;
      throw storedGate ? new RunAlreadySuspended(storedGate) : new CancelledMeanwhile();
    }
    const { id, workflow } = row;
    if (suspend_kind === 'crash') await interruptOpenStep(tx, id);
    if (cycle) {
      await failOpenSteps(tx, id, services.store.time());
      const { outcome } = cycle;
      await services.signals.emit(tx, `run.${outcome}`, { id, workflow, outcome, cycle: currentCycle(row) });
    }
    await services.signals.emit(tx, 'run.suspended', {
      id,
      workflow,
      waiting_on: gate.kind,
      ...(gate.step === undefined ? {} : { step: gate.step }),
      ...(gate.pending_id === undefined ? {} : { pending_id: gate.pending_id }),
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

const describeCycle = (cycle: number, { outcome, error }: RunOutcome): string =>
  describeOutcome(`cycle ${cycle} ${outcome}`, error);

const describeWait = ({ kind, step }: StoredGate): string => `waits at '${step ?? 'the entry'}' (${kind})`;
