import { raceAbort } from '../../../util/race-abort.ts';
import { evaluateCondition } from '../definition/conditions.ts';
import type { Gate, Step } from '../definition/ensemble.ts';
import { renderTemplate } from '../definition/templates.ts';
import { askOnce, discardStaged } from './questions.ts';
import { updateRun, upsertStep } from './rows.ts';
import { type Segment, stillWaiting } from './segment.ts';
import { createStepGate, parseGate, type StoredGate } from './stored-gate.ts';
import { nextStepRow } from './step-rows.ts';
import { toConditionContext, toRunContext } from './run-context.ts';

type GatedStep = Step & { readonly gate: Gate };
export const hasGate = (step: Step): step is GatedStep => step.gate !== undefined;

export type GateResult =
  | { readonly kind: 'passed' }
  | { readonly kind: 'failed'; readonly error: string }
  | { readonly kind: 'suspended'; readonly gate: StoredGate }
  | { readonly kind: 'cancelled' };

/** Passes a gate, waits for its approval, or parks the step at it. */
export async function enterGate(segment: Segment, step: GatedStep): Promise<GateResult> {
  const gate = await createGate(segment, step);
  if (gate.kind === 'approval') return await waitForDecision(segment, step, gate);
  if (!(await isOpen(gate, segment))) {
    await parkStep(segment, step, gate);
    return { kind: 'suspended', gate };
  }
  await passGate(segment, step);
  return { kind: 'passed' };
}

async function createGate({ services, row, records, scope }: Segment, step: GatedStep): Promise<StoredGate> {
  const { message } = step.gate;
  const lastSignal = await services.store.read((db) => services.signals.last(db));
  return createStepGate(step, step.gate, {
    now: services.clock.now(),
    lastSignal,
    message: message === undefined ? undefined : renderTemplate(message, toRunContext(row, records, scope)),
  });
}

/** Whether the gate is already open: its time has passed, or its condition holds. */
async function isOpen(gate: StoredGate, { services, row, records, scope }: Segment): Promise<boolean> {
  if (gate.until_at !== undefined) return Date.parse(gate.until_at) <= services.clock.now().getTime();
  if (gate.expr === undefined) return false;
  return evaluateCondition(gate.expr, await toConditionContext(services, toRunContext(row, records, scope)));
}

/** Waits for the approval, while the segment stays open. Another run may have the slot meanwhile. */
async function waitForDecision(segment: Segment, step: GatedStep, gate: StoredGate): Promise<GateResult> {
  return await segment.lease.use(() => askForApproval(segment, step, gate), segment.stopping);
}

async function askForApproval(segment: Segment, step: GatedStep, gate: StoredGate): Promise<GateResult> {
  const { services, row, records, requests, stopping, lease } = segment;
  const storedGate = records.get(step.id)?.state === 'waiting' ? parseGate(row.gate) : undefined;
  const stagedId = storedGate?.step === step.id ? storedGate.pending_id : undefined;
  const id = stagedId ?? (await stageApproval(segment, step, gate));
  // After a crash the stream already has the event.
  if (stagedId === undefined) await parkStep(segment, step, { ...gate, pending_id: id });
  segment.waits.add(step.id);
  const waitOver = new AbortController();
  const signal = AbortSignal.any([stopping, waitOver.signal]);
  try {
    const decisionPromise = services.changes.decision(id, signal);
    const cancelled = requests
      .waitUntil(() => requests.cancel !== undefined, undefined, signal)
      .then(() => undefined);
    cancelled.catch(() => undefined);
    const decision = await lease.waitForPerson(
      () => raceAbort(Promise.race([decisionPromise, cancelled]), signal),
      signal,
    );
    if (decision === undefined) {
      await discardStaged(services, id, requests.cancel ?? 'host', `the run ${row.id} was cancelled`);
      return { kind: 'cancelled' };
    }
    if (decision.state !== 'applied')
      return { kind: 'failed', error: `${id} was not approved: ${decision.state}.` };
    await passGate(segment, step);
    return { kind: 'passed' };
  } finally {
    segment.waits.delete(step.id);
    waitOver.abort(new Error('the gate is decided'));
  }
}

async function stageApproval({ services, row }: Segment, step: GatedStep, gate: StoredGate): Promise<string> {
  return await askOnce(services, {
    tool: 'approval_gate',
    runId: row.id,
    step: step.id,
    agent: step.agent ?? row.workflow,
    intent: gate.message ?? `The workflow '${row.workflow}' asks before its step '${step.id}'.`,
    summary: `Let the run ${row.id} of '${row.workflow}' go on with '${step.id}'`,
  });
}

async function parkStep(
  { writer, row, records, services }: Segment,
  step: GatedStep,
  gate: StoredGate,
): Promise<void> {
  const { pending_id } = gate;
  const record = nextStepRow(row, step, records, services.store.time(), 'waiting');
  const wait = { step: step.id, waiting_on: gate.kind, ...(pending_id ? { pending_id } : {}) };
  await writer.appendWith({ type: 'step_waiting', ...wait }, async (tx) => {
    const { id, workflow } = row;
    await upsertStep(tx, record);
    await updateRun(tx, id, ['running'], { waiting_on: gate.kind, gate: JSON.stringify(gate) });
    await services.signals.emit(tx, 'run.waiting', { id, workflow, ...wait });
  });
  records.set(step.id, record);
}

/** Marks the step as running, before its agent starts. */
async function passGate(segment: Segment, step: GatedStep): Promise<void> {
  const { services, row, records, waits } = segment;
  waits.delete(step.id);
  const record = nextStepRow(row, step, records, services.store.time(), 'running');
  await services.store.transaction(async (tx) => {
    await upsertStep(tx, record);
    await updateRun(tx, row.id, ['running'], stillWaiting(segment));
  });
  records.set(step.id, record);
}
