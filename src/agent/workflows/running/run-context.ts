import type { ConditionContext } from '../definition/conditions.ts';
import type { RunContext, StepContext } from '../definition/templates.ts';
import { readOutput } from './progress.ts';
import type { RunRow, StepRow } from './rows.ts';
import type { RunServices } from './run-services.ts';

type Run = Pick<RunRow, 'id' | 'workflow' | 'started_at' | 'input' | 'inputs'>;

/** Values of a run for templates. */
export function toRunContext(run: Run, records: ReadonlyMap<string, StepRow>): RunContext {
  return {
    workflow: run.workflow,
    run: { id: run.id, started_at: run.started_at },
    input: run.input ?? '',
    inputs: JSON.parse(run.inputs) as Record<string, unknown>,
    steps: Object.fromEntries([...records].flatMap(([id, record]) => toStepContexts(id, record))),
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

/** Values for the template of a step's prompt: the run, and the data of the step's gate. */
export function toStepPromptContext(
  run: Run,
  records: ReadonlyMap<string, StepRow>,
  step: string,
): RunContext {
  const gateInputs = records.get(step)?.gate_inputs ?? null;
  return {
    ...toRunContext(run, records),
    ...(gateInputs === null ? {} : { gate: JSON.parse(gateInputs) as unknown }),
  };
}

/** Values of an ended step; empty for others. */
function toStepContexts(id: string, record: StepRow): [string, StepContext][] {
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
