import { AgentError } from '../../errors.ts';
import type { TraceSpan } from '../../../tracing/index.ts';
import type { Conversation, TurnLoopResult } from '../../services.ts';
import { beginConversation } from './attempt-conversation.ts';
import type { AgentSpec } from '../../shapes/agent-spec.ts';
import type { NewTurnEvent } from '../../shapes/turn-event.ts';
import type { Step } from '../definition/ensemble.ts';
import { resolveGrants, resolveWorkspace } from '../definition/inputs.ts';
import { validateWithDefaults } from '../definition/json-schema.ts';
import { renderTemplate } from '../definition/templates.ts';
import { DecisionWait } from './decision-wait.ts';
import type { Segment } from './segment.ts';
import { toStepPromptContext } from './run-context.ts';

export type AttemptResult =
  | { readonly kind: 'completed'; readonly output: unknown; readonly usage?: Usage }
  | { readonly kind: 'failed'; readonly error: string; readonly usage?: Usage }
  /** Cancelled while it waited for a decision. */
  | { readonly kind: 'cancelled'; readonly usage?: Usage }
  | { readonly kind: 'stopped'; readonly usage?: Usage };
type Usage = NonNullable<TurnLoopResult['usage']>;

type AgentStep = Step & { readonly agent: string; readonly prompt: string };
export const hasAgent = (step: Step): step is AgentStep =>
  step.agent !== undefined && step.prompt !== undefined;

/**
 * The agent of a step: an inline agent of the workflow with its workspace resolved, or the current stored agent.
 * @throws AgentError not_found
 */
export async function resolveAgent(segment: Segment, step: AgentStep): Promise<AgentSpec> {
  const { scope, services, row } = segment;
  const { agents } = scope.ensemble;
  const inline = Object.hasOwn(agents, step.agent) ? agents[step.agent] : undefined;
  const agent = inline
    ? resolveGrants(inline, workspaceFolder(segment))
    : await services.agents.get(step.agent);
  const model = step.model ?? (agent.model === 'resident' ? row.resident_model : null);
  return model === null ? agent : { ...agent, model };
}

const workspaceFolder = ({ scope }: Segment): string | undefined =>
  resolveWorkspace(scope.ensemble, scope.inputs);

interface RunningAttempt {
  readonly id: string;
  /** The conversation of an interrupted attempt, which goes on. */
  readonly resumed: Conversation | undefined;
  readonly span: TraceSpan<'step'>;
}

/** Runs one attempt of a step's agent, or goes on with it. Failures are results. */
export async function runAttempt(
  segment: Segment,
  step: AgentStep,
  agent: AgentSpec,
  { id, resumed, span }: RunningAttempt,
): Promise<AttemptResult> {
  const { services, row, writer, stopping } = segment;
  const decisionWait = new DecisionWait(segment, step.id);
  const signal = AbortSignal.any([stopping, decisionWait.cancelled]);
  const emit = async (event: NewTurnEvent) => {
    await decisionWait.onEvent(event);
    await writer.append({ type: 'step_event', step: step.id, event });
    if (event.type === 'staged') await decisionWait.begin(event.pending_id);
  };
  const { output_schema: schema } = step;
  try {
    const prompt = renderTemplate(
      step.prompt,
      toStepPromptContext(row, segment.records, step.id, segment.scope),
    );
    const conversation = resumed ?? (await beginConversation(services.store, id, prompt));
    if (resumed) await goOn(segment, step, resumed, decisionWait);
    const idPrefix = resumed ? `${id}@${resumed.lastTurn}` : id;
    const result = await services.turnRunner.run(
      {
        agent,
        prompt,
        conversation,
        cwd: workspaceFolder(segment),
        ...(schema ? { responseFormat: { type: 'json_schema', schema } } : {}),
        limits: { ...step.limits, timeout_secs: attemptTimeoutSecs(step, agent) },
        owner: {
          runId: row.id,
          step: step.id,
          ...(row.session_id === null ? {} : { sessionId: row.session_id }),
        },
        trace: { span, idPrefix },
        onStaged: 'wait',
        isHostStopping: () => stopping.aborted,
        whileWaiting: (wait) => segment.lease.waitForPerson(wait, signal),
        beforeEffect: () => markSideEffects(segment, step.id),
      },
      emit,
      signal,
    );
    return toAttemptResult(result, schema, {
      isStopped: stopping.aborted,
      isCancelled: decisionWait.cancelled.aborted,
    });
  } catch (error) {
    if (error instanceof AgentError) return { kind: 'failed', error: error.message };
    throw error;
  } finally {
    await decisionWait.end();
  }
}

/** A change that was staged before waits for the same decision. */
async function goOn(
  { writer }: Segment,
  { id }: Step,
  { interrupted }: Conversation,
  decisionWait: DecisionWait,
): Promise<void> {
  await writer.append({ type: 'step_event', step: id, event: { type: 'resumed' } });
  const waiting = [...(interrupted?.calls.values() ?? [])].find(
    ({ pendingId, output }) => pendingId !== undefined && output === undefined,
  );
  if (waiting?.pendingId !== undefined) await decisionWait.begin(waiting.pendingId);
}

/** The shortest of the configured timeouts. */
const attemptTimeoutSecs = ({ timeout_secs, limits }: Step, agent: AgentSpec): number =>
  Math.min(timeout_secs, limits?.timeout_secs ?? agent.limits?.timeout_secs ?? timeout_secs);

function toAttemptResult(
  result: TurnLoopResult,
  schema: Step['output_schema'],
  { isStopped, isCancelled }: { isStopped: boolean; isCancelled: boolean },
): AttemptResult {
  const usage = result.usage ? { usage: result.usage } : {};
  if (result.kind === 'answer') return { ...parseAnswer(result.text, schema), ...usage };
  if (isStopped) return { kind: 'stopped', ...usage };
  if (isCancelled) return { kind: 'cancelled', ...usage };
  if (result.kind === 'suspended') throw new Error('only tasks are suspended while a person decides');
  return { kind: 'failed', error: `${result.reason}: ${result.message}`, ...usage };
}

/** Validates the answer, because a model without constrained output may return any text. */
function parseAnswer(text: string, schema: Step['output_schema']): AttemptResult {
  if (!schema) return { kind: 'completed', output: text };
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { kind: 'failed', error: 'The answer is not JSON, which output_schema requires.' };
  }
  const { faults } = validateWithDefaults(schema, value);
  if (faults.length === 0) return { kind: 'completed', output: value };
  const messages = faults
    .slice(0, 5)
    .map(({ path, message }) => (path === '' ? message : `${path}: ${message}`));
  return { kind: 'failed', error: `The answer does not fit output_schema: ${messages.join('; ')}.` };
}

/** Stored before the side effect, so that after a crash the step is rerun only with approval. */
async function markSideEffects({ services, records, row }: Segment, step: string): Promise<void> {
  const record = records.get(step);
  if (!record) throw new Error(`the step '${step}' has not begun`);
  if (record.side_effects === 1) return;
  await services.store.transaction((tx) =>
    tx
      .updateTable('run_steps')
      .set({ side_effects: 1 })
      .where('run_id', '=', row.id)
      .where('cycle', '=', record.cycle)
      .where('step', '=', step)
      .execute(),
  );
  records.set(step, { ...record, side_effects: 1 });
}
