import { endingOf } from '../../ending-of.ts';
import { AgentError } from '../../errors.ts';
import type { AgentSpec } from '../../shapes/agent-spec.ts';
import type { Tx } from '../../../store/index.ts';
import type { Ending, Work } from '../../../watch/index.ts';
import { sql } from 'kysely';
import { evaluate } from '../definition/conditions.ts';
import type { Step } from '../definition/ensemble.ts';
import { shortened } from './ending.ts';
import { atGate, hasGate } from './gates.ts';
import { hasNothingToWorkWith } from './progress.ts';
import { changeRun, cycleOf, putStep, type StepRow } from './rows.ts';
import type { Segment } from './segment.ts';
import { newStep } from './step-rows.ts';
import { agentOf, hasAgent, work, type WorkResult } from './step-work.ts';
import type { StoredGate } from './stored-gate.ts';
import { conditionViewOf, viewOf } from './view.ts';

export type StepResult =
  /** The step has ended or passed its gate; continue at the next step boundary. */
  | { readonly kind: 'go_on' }
  | { readonly kind: 'failed'; readonly error: string }
  | { readonly kind: 'cancelled' }
  | { readonly kind: 'suspended'; readonly gate: StoredGate }
  | { readonly kind: 'stopped' };

/** Maximum backoff between attempts, which doubles each time. */
const longestBackoffSecs = 3600;

/** Advances a step: skips it, takes it through its gate, or runs it to its end. */
export async function doStep(segment: Segment, step: Step): Promise<StepResult> {
  try {
    const record = segment.records.get(step.id);
    // Its failure was stored before the host stopped, or a person refused its rerun.
    if (record?.state === 'failed') return { kind: 'failed', error: record.error ?? 'failed' };
    if (!record && (await isSkipped(segment, step))) return await close(segment, step, 'skipped', {});
    if (!hasGate(step) || (record && record.state !== 'waiting')) return await watched(segment, step);
    const result = await atGate(segment, step);
    if (result.kind === 'suspended') return result;
    if (result.kind === 'cancelled') return await close(segment, step, 'cancelled', {});
    if (result.kind === 'failed') return await close(segment, step, 'failed', result);
    return { kind: 'go_on' };
  } catch (error) {
    // Error of its condition, or of its gate's template.
    if (error instanceof AgentError) return await close(segment, step, 'failed', { error: error.message });
    throw error;
  }
}

async function isSkipped({ row, records, world }: Segment, step: Step): Promise<boolean> {
  if (hasNothingToWorkWith(step, records)) return true;
  if (step.when === undefined) return false;
  return !evaluate(step.when, await conditionViewOf(world, viewOf(row, records)));
}

/** Runs all attempts of a step in a span. */
async function watched(segment: Segment, step: Step): Promise<StepResult> {
  const { world, work: parent, row, stopping } = segment;
  const { id, agent } = step;
  const facts = { workflow: row.workflow, step: id, ...(agent === undefined ? {} : { agent }) };
  const told = world.watch.begin('step', `${row.id}:${id}`, facts, { parent });
  try {
    const result = await attempts(segment, step, told);
    told.end(endings[result.kind]);
    return result;
  } catch (error) {
    told.end(endingOf(error, stopping));
    throw error;
  }
}

const endings: Readonly<Record<StepResult['kind'], Ending>> = {
  go_on: { outcome: 'ok' },
  suspended: { outcome: 'ok' },
  failed: { outcome: 'failed', code: 'step_failed' },
  cancelled: { outcome: 'abandoned', code: 'cancelled' },
  stopped: { outcome: 'failed', code: 'shutdown' },
};

async function attempts(segment: Segment, step: Step, told: Work<'step'>): Promise<StepResult> {
  const { orders, stopping, records } = segment;
  let made = records.get(step.id)?.attempts ?? 0;
  // An interrupted attempt is repeated, whatever the number of attempts.
  let left = Math.max(1, step.retry.attempts - made);
  for (let backoff = step.retry.backoff_secs; ; backoff = Math.min(backoff * 2, longestBackoffSecs)) {
    made += 1;
    left -= 1;
    told.facts.attempts = made;
    const result = await tryOnce(segment, step, made, told);
    if (result.kind === 'completed') return await close(segment, step, 'completed', result);
    if (result.kind === 'cancelled') return await close(segment, step, 'cancelled', result);
    if (result.kind === 'stopped') return await interrupt(segment, step, result);
    if (left === 0 || orders.cancel !== undefined) return await close(segment, step, 'failed', result);
    await noteFailure(segment, step, result);
    if (await orders.until(() => orders.cancel !== undefined, backoff * 1000, stopping))
      return await close(segment, step, 'cancelled', {});
  }
}

async function tryOnce(
  segment: Segment,
  step: Step,
  number: number,
  told: Work<'step'>,
): Promise<WorkResult> {
  let agent: AgentSpec | undefined;
  let refusal: string | undefined;
  try {
    agent = hasAgent(step) ? await agentOf(segment, step) : undefined;
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    refusal = error.message;
  }
  await begin(segment, step, number, agent);
  if (refusal !== undefined) return { kind: 'failed', error: refusal };
  if (agent && hasAgent(step)) {
    const ids = `${segment.row.id}:${cycleOf(segment.row)}:${step.id}:${number}`;
    return await work(segment, step, agent, { work: told, ids });
  }
  const given = segment.records.get(step.id)?.gate_inputs ?? null;
  return { kind: 'completed', output: given === null ? true : (JSON.parse(given) as unknown) };
}

async function begin(
  segment: Segment,
  step: Step,
  attempt: number,
  agent: AgentSpec | undefined,
): Promise<void> {
  const { world, row, writer, records } = segment;
  const record: StepRow = {
    ...newStep(row, step, records, world.store.time(), 'running'),
    attempts: attempt,
    error: null,
  };
  await writer.appendWith({ type: 'step_start', step: step.id, attempt }, async (tx) => {
    await putStep(tx, record);
    await changeRun(tx, row.id, ['running'], agent ? routeOf(segment, agent) : { waiting_on: null });
  });
  records.set(step.id, record);
}

/** Route of the model that the run uses now. */
function routeOf({ world }: Segment, { model }: AgentSpec) {
  try {
    return { waiting_on: null, ...world.planners.find(model).route };
  } catch (error) {
    // The model is unavailable; the step reports the error.
    if (error instanceof AgentError) return { waiting_on: null };
    throw error;
  }
}

type Usage = NonNullable<WorkResult['usage']>;
interface Gave {
  readonly output?: unknown;
  readonly error?: string;
  readonly usage?: Usage;
}

/** Stores the end of a step. */
async function close(
  segment: Segment,
  step: Step,
  outcome: 'completed' | 'failed' | 'skipped' | 'cancelled',
  { output, error, usage }: Gave,
): Promise<StepResult> {
  const { world, row, writer, records } = segment;
  const now = world.store.time();
  const record: StepRow = {
    ...newStep(row, step, records, now, outcome),
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
    await putStep(tx, record);
    await changeRun(tx, row.id, ['running'], { waiting_on: null, gate: null });
    if (usage) await addUsage(tx, row.id, usage);
  });
  records.set(step.id, record);
  if (outcome === 'failed') return { kind: 'failed', error: error ?? 'failed' };
  return { kind: outcome === 'cancelled' ? 'cancelled' : 'go_on' };
}

async function noteFailure(segment: Segment, step: Step, { error, usage }: Gave): Promise<void> {
  await change(segment, step, { error: shortened(error ?? '') }, async (tx) => {
    if (usage) await addUsage(tx, segment.row.id, usage);
  });
}

/** Stores that the stop of the host interrupted the step. */
async function interrupt(segment: Segment, step: Step, { usage }: Gave): Promise<StepResult> {
  const { row } = segment;
  await change(segment, step, { state: 'interrupted', error: 'shutdown' }, async (tx) => {
    const last_event = `interrupted in '${step.id}': the host was stopped`;
    await changeRun(tx, row.id, ['running'], { last_event, waiting_on: null });
    if (usage) await addUsage(tx, row.id, usage);
  });
  return { kind: 'stopped' };
}

async function change(
  { world, row, records }: Segment,
  step: Step,
  values: Partial<StepRow>,
  also: (tx: Tx) => Promise<void>,
): Promise<void> {
  const record = { ...newStep(row, step, records, world.store.time(), 'running'), ...values };
  await world.store.transaction(async (tx) => {
    await putStep(tx, record);
    await also(tx);
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
