import type { ConditionContext } from '../definition/conditions.ts';
import type { RunContext, StepContext } from '../definition/templates.ts';
import { readOutput } from './progress.ts';
import type { RunRow, StepRow } from './rows.ts';
import type { RunServices } from './run-services.ts';
import type { Scope } from './scope.ts';

type Run = Pick<RunRow, 'id' | 'started_at' | 'input'>;

/** Values of a run for templates of a workflow in it. */
export function toRunContext(
  run: Run,
  records: ReadonlyMap<string, StepRow>,
  { ensemble, prefix, inputs }: Scope,
): RunContext {
  const steps = ensemble.steps.flatMap(({ id }) => toStepContexts(id, records.get(`${prefix}${id}`)));
  return {
    workflow: ensemble.name,
    run: { id: run.id, started_at: run.started_at },
    input: run.input ?? '',
    inputs,
    steps: Object.fromEntries(steps),
  };
}

/** Values for conditions: of the run, and of the host now. */
export async function toConditionContext(
  { clock, readHostState: host }: ConditionServices,
  context: RunContext,
): Promise<ConditionContext> {
  return { ...context, host: await host(), now: clock.now() };
}
type ConditionServices = Pick<RunServices, 'clock' | 'readHostState'>;

/** Values for the template of a step's prompt: the run, the data of the step's gate, and the item of its list. */
export function toStepPromptContext(
  run: Run,
  records: ReadonlyMap<string, StepRow>,
  step: string,
  scope: Scope,
): RunContext {
  const item = scope.items?.get(step);
  // The gate is that of the step as a whole.
  const gatedStep = item ? step.slice(0, step.lastIndexOf('[')) : step;
  const gateInputs = records.get(gatedStep)?.gate_inputs ?? null;
  return {
    ...toRunContext(run, records, scope),
    ...(item ? { item } : {}),
    ...(gateInputs === null ? {} : { gate: JSON.parse(gateInputs) as unknown }),
  };
}

/** Values of an ended step; empty for others. */
function toStepContexts(id: string, record: StepRow | undefined): [string, StepContext][] {
  if (!record) return [];
  const { state, error } = record;
  if (state === 'running' || state === 'waiting') return [];
  const output = readOutput(record);
  const context = {
    state,
    ...(output === undefined ? {} : { output }),
    ...(error === null ? {} : { error }),
  };
  return [[id, context]];
}
