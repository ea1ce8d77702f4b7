import { toSpanResult } from '../../to-span-result.ts';
import { AgentError } from '../../errors.ts';
import type { Conversation } from '../../services.ts';
import type { AgentSpec } from '../../shapes/agent-spec.ts';
import type { Tx } from '../../../store/index.ts';
import type { SpanResult, TraceSpan } from '../../../tracing/index.ts';
import { sql } from 'kysely';
import { evaluateCondition } from '../definition/conditions.ts';
import type { Step } from '../definition/ensemble.ts';
import { shortenMessage } from './end-run.ts';
import { enterGate, hasGate } from './gates.ts';
import { areAllNeedsSkipped } from './progress.ts';
import { attemptId, resumedConversation } from './attempt-conversation.ts';
import { updateRun, upsertStep, type StepRow } from './rows.ts';
import { type Segment, stillWaiting } from './segment.ts';
import type { StepResult } from './step-result.ts';
import { nextStepRow } from './step-rows.ts';
import { resolveAgent, hasAgent, runAttempt, type AttemptResult } from './run-attempt.ts';
import { toConditionContext, toRunContext } from './run-context.ts';
import { isComposite, runComposite } from './composite-step.ts';

/** Maximum backoff between attempts, which doubles each time. */
const maxBackoffSecs = 3600;

/** Advances a step: skips it, takes it through its gate, or runs it to its end. */
export async function advanceStep(segment: Segment, step: Step): Promise<StepResult> {
  try {
    const record = segment.records.get(step.id);
    // Its failure was stored before the host stopped, or a person refused its rerun.
    if (record?.state === 'failed') return { kind: 'failed', error: record.error ?? 'failed' };
    if (!record && (await isSkipped(segment, step))) return await endStep(segment, step, 'skipped', {});
    if (!hasGate(step) || (record && record.state !== 'waiting')) return await runInSpan(segment, step);
    const result = await enterGate(segment, step);
    if (result.kind === 'suspended') return result;
    if (result.kind === 'cancelled') return await endStep(segment, step, 'cancelled', {});
    if (result.kind === 'failed') return await endStep(segment, step, 'failed', result);
    return { kind: 'go_on' };
  } catch (error) {
    // Error of its condition, or of its gate's template.
    if (error instanceof AgentError) return await endStep(segment, step, 'failed', { error: error.message });
    throw error;
  }
}

async function isSkipped({ row, records, services, scope }: Segment, step: Step): Promise<boolean> {
  if (areAllNeedsSkipped(step, records)) return true;
  if (step.when === undefined) return false;
  return !evaluateCondition(step.when, await toConditionContext(services, toRunContext(row, records, scope)));
}

/** Runs all attempts of a step in a span. */
async function runInSpan(segment: Segment, step: Step): Promise<StepResult> {
  const { services, span: parent, row, stopping } = segment;
  const { id, agent } = step;
  const attributes = { workflow: row.workflow, step: id, ...(agent === undefined ? {} : { agent }) };
  const span = services.tracer.startSpan('step', `${row.id}:${id}`, attributes, { parent });
  try {
    const result = await runAttempts(segment, step, span);
    span.end(spanResults[result.kind]);
    return result;
  } catch (error) {
    span.end(toSpanResult(error, stopping));
    throw error;
  }
}

const spanResults: Readonly<Record<StepResult['kind'], SpanResult>> = {
  go_on: { outcome: 'ok' },
  suspended: { outcome: 'ok' },
  failed: { outcome: 'failed', code: 'step_failed' },
  cancelled: { outcome: 'abandoned', code: 'cancelled' },
  stopped: { outcome: 'failed', code: 'shutdown' },
};

async function runAttempts(segment: Segment, step: Step, span: TraceSpan<'step'>): Promise<StepResult> {
  if (isComposite(step)) return await runParts(segment, step);
  const { requests, stopping, records } = segment;
  const record = records.get(step.id);
  // Read before anything else changes the record. It applies to the first attempt here.
  let resumed = record && hasAgent(step) ? await resumedConversation(segment, record) : undefined;
  let attempt = (record?.attempts ?? 0) - (resumed ? 1 : 0);
  // An interrupted attempt is repeated, whatever the number of attempts.
  let attemptsLeft = Math.max(1, step.retry.attempts - attempt);
  for (let backoff = step.retry.backoff_secs; ; backoff = Math.min(backoff * 2, maxBackoffSecs)) {
    attempt += 1;
    attemptsLeft -= 1;
    span.attributes.attempts = attempt;
    const running = { attempt, resumed, span };
    resumed = undefined;
    const result = await segment.agentSlots.run(() =>
      segment.lease.use(() => tryAttempt(segment, step, running), stopping),
    );
    if (result.kind === 'completed') return await endStep(segment, step, 'completed', result);
    if (result.kind === 'cancelled') return await endStep(segment, step, 'cancelled', result);
    if (result.kind === 'stopped') return await storeInterruption(segment, step);
    if (attemptsLeft === 0 || requests.cancel !== undefined)
      return await endStep(segment, step, 'failed', result);
    await storeFailure(segment, step, result);
    if (await requests.waitUntil(() => requests.cancel !== undefined, backoff * 1000, stopping))
      return await endStep(segment, step, 'cancelled', {});
  }
}

/** Runs a step that consists of others. They have records, attempts and retries of their own. */
async function runParts(segment: Segment, step: Step): Promise<StepResult> {
  const { services, row, writer, records } = segment;
  // After a restart, or a gate in a workflow that it runs, it goes on.
  const hasBegun = [...records.keys()].some(
    (id) => id.startsWith(`${step.id}[`) || id.startsWith(`${step.id}.`),
  );
  if (!hasBegun) {
    const record = nextStepRow(row, step, records, services.store.time(), 'running');
    const event = { type: 'step_start', step: step.id, attempt: 1 } as const;
    await writer.appendWith(event, (tx) => upsertStep(tx, record));
    records.set(step.id, record);
  }
  const result = await runComposite(segment, step);
  if (result.kind === 'suspended' || result.kind === 'stopped') return result;
  return await endStep(segment, step, result.kind, result.kind === 'cancelled' ? {} : result);
}

async function tryAttempt(
  segment: Segment,
  step: Step,
  { attempt, resumed, span }: { attempt: number; resumed: Conversation | undefined; span: TraceSpan<'step'> },
): Promise<AttemptResult> {
  let agent: AgentSpec | undefined;
  let agentError: string | undefined;
  try {
    agent = hasAgent(step) ? await resolveAgent(segment, step) : undefined;
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    agentError = error.message;
  }
  if (resumed) await goOnWithAttempt(segment, step);
  else await startAttempt(segment, step, attempt, agent);
  if (agentError !== undefined) return { kind: 'failed', error: agentError };
  if (agent && hasAgent(step)) {
    return await runAttempt(segment, step, agent, {
      id: attemptId(segment, step.id, attempt),
      resumed,
      span,
    });
  }
  const gateInputs = segment.records.get(step.id)?.gate_inputs ?? null;
  return { kind: 'completed', output: gateInputs === null ? true : (JSON.parse(gateInputs) as unknown) };
}

async function goOnWithAttempt(segment: Segment, step: Step): Promise<void> {
  await updateStep(segment, step, { error: null }, async (tx) => {
    const last_event = `went on with '${step.id}' after a restart`;
    await updateRun(tx, segment.row.id, ['running'], { last_event });
  });
}

async function startAttempt(
  segment: Segment,
  step: Step,
  attempt: number,
  agent: AgentSpec | undefined,
): Promise<void> {
  const { services, row, writer, records } = segment;
  const record: StepRow = {
    ...nextStepRow(row, step, records, services.store.time(), 'running'),
    attempts: attempt,
    error: null,
  };
  await writer.appendWith({ type: 'step_start', step: step.id, attempt }, async (tx) => {
    await upsertStep(tx, record);
    await updateRun(tx, row.id, ['running'], {
      ...stillWaiting(segment),
      ...(agent ? currentRoute(segment, agent) : {}),
    });
  });
  records.set(step.id, record);
}

/** Route of the model that the run uses now. */
function currentRoute({ services }: Segment, { model }: AgentSpec) {
  try {
    return services.chatModels.find(model).route;
  } catch (error) {
    // The model is unavailable; the step reports the error.
    if (error instanceof AgentError) return {};
    throw error;
  }
}

type Usage = NonNullable<AttemptResult['usage']>;
interface StepOutput {
  readonly output?: unknown;
  readonly error?: string;
  readonly usage?: Usage;
}

/** Stores the end of a step. */
async function endStep(
  segment: Segment,
  step: Step,
  outcome: 'completed' | 'failed' | 'skipped' | 'cancelled',
  { output, error, usage }: StepOutput,
): Promise<StepResult> {
  const { services, row, writer, records } = segment;
  const now = services.store.time();
  const record: StepRow = {
    ...nextStepRow(row, step, records, now, outcome),
    ended_at: now,
    output: output === undefined ? null : JSON.stringify(output),
    error: error ?? null,
  };
  const event = {
    type: 'step_end',
    step: step.id,
    outcome,
    ...(output === undefined ? {} : { output }),
    ...(error === undefined ? {} : { error }),
  } as const;
  await writer.appendWith(event, async (tx) => {
    await upsertStep(tx, record);
    await updateRun(tx, row.id, ['running'], stillWaiting(segment));
    if (usage) await addUsage(tx, row.id, usage);
    const { id, workflow } = row;
    await services.signals.emit(tx, 'run.step_ended', { id, workflow, step: step.id, outcome });
  });
  records.set(step.id, record);
  if (outcome === 'failed') return { kind: 'failed', error: error ?? 'failed' };
  return { kind: outcome === 'cancelled' ? 'cancelled' : 'go_on' };
}

async function storeFailure(segment: Segment, step: Step, { error, usage }: StepOutput): Promise<void> {
  await updateStep(segment, step, { error: shortenMessage(error ?? '') }, async (tx) => {
    if (usage) await addUsage(tx, segment.row.id, usage);
  });
}

/** Stores that the stop of the host interrupted the step. The attempt goes on, with what it has used, at the next start. */
async function storeInterruption(segment: Segment, step: Step): Promise<StepResult> {
  const { row } = segment;
  await updateStep(segment, step, { state: 'interrupted', error: 'shutdown' }, async (tx) => {
    const last_event = `interrupted in '${step.id}': the host was stopped`;
    await updateRun(tx, row.id, ['running'], { last_event, waiting_on: null });
  });
  return { kind: 'stopped' };
}

async function updateStep(
  { services, row, records }: Segment,
  step: Step,
  values: Partial<StepRow>,
  alsoWrite: (tx: Tx) => Promise<void>,
): Promise<void> {
  const record = { ...nextStepRow(row, step, records, services.store.time(), 'running'), ...values };
  await services.store.transaction(async (tx) => {
    await upsertStep(tx, record);
    await alsoWrite(tx);
  });
  records.set(step.id, record);
}

async function addUsage(tx: Tx, id: string, { prompt_tokens, completion_tokens }: Usage): Promise<void> {
  await tx
    .updateTable('runs')
    .set({
      prompt_tokens: sql`coalesce(prompt_tokens, 0) + ${prompt_tokens}`,
      completion_tokens: sql`coalesce(completion_tokens, 0) + ${completion_tokens}`,
    })
    .where('id', '=', id)
    .execute();
}
