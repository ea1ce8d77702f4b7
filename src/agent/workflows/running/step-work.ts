import { AgentError } from '../../errors.ts';
import type { TurnsRequest, TurnsResult } from '../../services.ts';
import type { AgentSpec } from '../../shapes/agent-spec.ts';
import type { NewTurnEvent } from '../../shapes/turn-event.ts';
import type { Step } from '../definition/ensemble.ts';
import { inWorkspace, workspaceOf } from '../definition/inputs.ts';
import { fitSchema } from '../definition/json-schema.ts';
import { render } from '../definition/templates.ts';
import { Waiting } from './waiting.ts';
import type { Segment } from './segment.ts';
import { stepViewOf } from './view.ts';

export type WorkResult =
  | { readonly kind: 'completed'; readonly output: unknown; readonly usage?: Usage }
  | { readonly kind: 'failed'; readonly error: string; readonly usage?: Usage }
  /** Cancelled while it waited for a decision. */
  | { readonly kind: 'cancelled'; readonly usage?: Usage }
  | { readonly kind: 'stopped'; readonly usage?: Usage };
type Usage = NonNullable<TurnsResult['usage']>;

type AgentStep = Step & { readonly agent: string; readonly prompt: string };
export const hasAgent = (step: Step): step is AgentStep =>
  step.agent !== undefined && step.prompt !== undefined;

/**
 * The agent of a step: an inline agent of the workflow with its workspace resolved, or the current stored agent.
 * @throws AgentError not_found
 */
export async function agentOf(segment: Segment, step: AgentStep): Promise<AgentSpec> {
  const { ensemble, world } = segment;
  const inline = Object.hasOwn(ensemble.agents, step.agent) ? ensemble.agents[step.agent] : undefined;
  return inline ? inWorkspace(inline, folderOf(segment)) : await world.agents.get(step.agent);
}

const folderOf = ({ ensemble, row }: Segment): string | undefined =>
  workspaceOf(ensemble, JSON.parse(row.inputs) as Record<string, unknown>);

/** Runs one attempt of a step's agent. Failures are results. */
export async function work(
  segment: Segment,
  step: AgentStep,
  agent: AgentSpec,
  within: TurnsRequest['within'],
): Promise<WorkResult> {
  const { world, row, writer, stopping } = segment;
  const waiting = new Waiting(segment, step.id);
  const signal = AbortSignal.any([stopping, waiting.cut]);
  const emit = async (event: NewTurnEvent) => {
    await waiting.over(event);
    await writer.append({ type: 'step_event', step: step.id, event });
    if (event.type === 'staged') await waiting.begin(event.pending_id);
  };
  const { output_schema: schema } = step;
  try {
    const prompt = render(step.prompt, stepViewOf(row, segment.records, step.id));
    const result = await world.turns.run(
      {
        agent,
        prompt,
        cwd: folderOf(segment),
        ...(schema ? { responseFormat: { type: 'json_schema', schema } } : {}),
        limits: { ...step.limits, timeout_secs: timeoutOf(step, agent) },
        about: {
          runId: row.id,
          step: step.id,
          ...(row.session_id === null ? {} : { sessionId: row.session_id }),
        },
        within,
        onStaged: 'wait',
        beforeEffect: () => markEffects(segment, step.id),
      },
      emit,
      signal,
    );
    return resultOf(result, schema, { stopped: stopping.aborted, cancelled: waiting.cut.aborted });
  } catch (error) {
    if (error instanceof AgentError) return { kind: 'failed', error: error.message };
    throw error;
  } finally {
    await waiting.end();
  }
}

/** The shortest of the configured timeouts. */
const timeoutOf = ({ timeout_secs, limits }: Step, agent: AgentSpec): number =>
  Math.min(timeout_secs, limits?.timeout_secs ?? agent.limits?.timeout_secs ?? timeout_secs);

function resultOf(
  result: TurnsResult,
  schema: Step['output_schema'],
  { stopped, cancelled }: { stopped: boolean; cancelled: boolean },
): WorkResult {
  const usage = result.usage ? { usage: result.usage } : {};
  if (result.kind === 'answer') return { ...readAnswer(result.text, schema), ...usage };
  if (stopped) return { kind: 'stopped', ...usage };
  if (cancelled) return { kind: 'cancelled', ...usage };
  return { kind: 'failed', error: `${result.reason}: ${result.message}`, ...usage };
}

/** Validates the answer, because a model without constrained output may return any text. */
function readAnswer(text: string, schema: Step['output_schema']): WorkResult {
  if (!schema) return { kind: 'completed', output: text };
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { kind: 'failed', error: 'The answer is not JSON, which output_schema requires.' };
  }
  const { faults } = fitSchema(schema, value);
  if (faults.length === 0) return { kind: 'completed', output: value };
  const told = faults.slice(0, 5).map(({ path, message }) => (path === '' ? message : `${path}: ${message}`));
  return { kind: 'failed', error: `The answer does not fit output_schema: ${told.join('; ')}.` };
}

/** Stored before the side effect, so that after a crash the step is rerun only with approval. */
async function markEffects({ world, records, row }: Segment, step: string): Promise<void> {
  const record = records.get(step);
  if (!record) throw new Error(`the step '${step}' has not begun`);
  if (record.side_effects === 1) return;
  await world.store.transaction((tx) =>
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
