import { unlessAborted } from '../../../util/abort.ts';
import { evaluate } from '../definition/conditions.ts';
import type { Gate, Step } from '../definition/ensemble.ts';
import { render } from '../definition/templates.ts';
import { ask, withdraw } from './questions.ts';
import { changeRun, putStep } from './rows.ts';
import type { Segment } from './segment.ts';
import { gateOf, readGate, type StoredGate } from './stored-gate.ts';
import { newStep } from './step-rows.ts';
import { conditionViewOf, viewOf } from './view.ts';

type GatedStep = Step & { readonly gate: Gate };
export const hasGate = (step: Step): step is GatedStep => step.gate !== undefined;

export type GateResult =
  | { readonly kind: 'passed' }
  | { readonly kind: 'failed'; readonly error: string }
  | { readonly kind: 'suspended'; readonly gate: StoredGate }
  | { readonly kind: 'cancelled' };

/** Passes a gate, waits for its approval, or parks the step at it. */
export async function atGate(segment: Segment, step: GatedStep): Promise<GateResult> {
  const gate = await gateNow(segment, step);
  if (gate.kind === 'approval') return await untilDecided(segment, step, gate);
  if (!(await isOpen(gate, segment))) {
    await park(segment, step, gate);
    return { kind: 'suspended', gate };
  }
  await pass(segment, step);
  return { kind: 'passed' };
}

async function gateNow({ world, row, records }: Segment, step: GatedStep): Promise<StoredGate> {
  const { message } = step.gate;
  const lastSignal = await world.store.read((db) => world.signals.last(db));
  return gateOf(step, step.gate, {
    now: world.clock.now(),
    lastSignal,
    message: message === undefined ? undefined : render(message, viewOf(row, records)),
  });
}

/** Whether the gate is already open: its time has passed, or its condition holds. */
async function isOpen(gate: StoredGate, { world, row, records }: Segment): Promise<boolean> {
  if (gate.until_at !== undefined) return Date.parse(gate.until_at) <= world.clock.now().getTime();
  if (gate.expr === undefined) return false;
  return evaluate(gate.expr, await conditionViewOf(world, viewOf(row, records)));
}

/** Waits for the approval, while the segment stays open and keeps the slot. */
async function untilDecided(segment: Segment, step: GatedStep, gate: StoredGate): Promise<GateResult> {
  const { world, row, records, orders, stopping } = segment;
  const asked = records.get(step.id)?.state === 'waiting' ? readGate(row.gate)?.pending_id : undefined;
  const id = asked ?? (await askFor(segment, step, gate));
  // After a crash the stream already has the event.
  if (asked === undefined) await park(segment, step, { ...gate, pending_id: id });
  const over = new AbortController();
  const signal = AbortSignal.any([stopping, over.signal]);
  try {
    const decided = world.changes.decision(id, signal);
    const cancelled = orders
      .until(() => orders.cancel !== undefined, undefined, signal)
      .then(() => undefined);
    cancelled.catch(() => undefined);
    const decision = await unlessAborted(Promise.race([decided, cancelled]), signal);
    if (decision === undefined) {
      await withdraw(world, id, orders.cancel ?? 'host', `the run ${row.id} was cancelled`);
      return { kind: 'cancelled' };
    }
    if (decision.state !== 'applied')
      return { kind: 'failed', error: `${id} was not approved: ${decision.state}.` };
    await pass(segment, step);
    return { kind: 'passed' };
  } finally {
    over.abort(new Error('the gate is decided'));
  }
}

async function askFor({ world, row }: Segment, step: GatedStep, gate: StoredGate): Promise<string> {
  return await ask(world, {
    tool: 'approval_gate',
    runId: row.id,
    step: step.id,
    agent: step.agent ?? row.workflow,
    intent: gate.message ?? `The workflow '${row.workflow}' asks before its step '${step.id}'.`,
    summary: `Let the run ${row.id} of '${row.workflow}' go on with '${step.id}'`,
  });
}

async function park(
  { writer, row, records, world }: Segment,
  step: GatedStep,
  gate: StoredGate,
): Promise<void> {
  const { pending_id } = gate;
  const record = newStep(row, step, records, world.store.time(), 'waiting');
  await writer.appendWith(
    { type: 'step_waiting', step: step.id, waiting_on: gate.kind, ...(pending_id ? { pending_id } : {}) },
    async (tx) => {
      await putStep(tx, record);
      await changeRun(tx, row.id, ['running'], { waiting_on: gate.kind, gate: JSON.stringify(gate) });
    },
  );
  records.set(step.id, record);
}

/** Marks the step as running, before its agent starts. */
async function pass({ world, row, records }: Segment, step: GatedStep): Promise<void> {
  const record = newStep(row, step, records, world.store.time(), 'running');
  await world.store.transaction(async (tx) => {
    await putStep(tx, record);
    await changeRun(tx, row.id, ['running'], { waiting_on: null, gate: null });
  });
  records.set(step.id, record);
}
