import type { ConditionView } from '../definition/conditions.ts';
import type { RunView, StepView } from '../definition/templates.ts';
import { readOutput } from './progress.ts';
import type { RunRow, StepRow } from './rows.ts';
import type { RunWorld } from './world.ts';

type Run = Pick<RunRow, 'id' | 'workflow' | 'started_at' | 'input' | 'inputs'>;

/** Values of a run for templates. */
export function viewOf(run: Run, records: ReadonlyMap<string, StepRow>): RunView {
  return {
    workflow: run.workflow,
    run: { id: run.id, started_at: run.started_at },
    input: run.input ?? '',
    inputs: JSON.parse(run.inputs) as Record<string, unknown>,
    steps: Object.fromEntries([...records].flatMap(([id, record]) => stepView(id, record))),
  };
}

/** Values for conditions: of the run, and of the host now. */
export async function conditionViewOf({ clock, host }: Now, view: RunView): Promise<ConditionView> {
  return { ...view, host: await host(), now: clock.now() };
}
type Now = Pick<RunWorld, 'clock' | 'host'>;

/** Values for the template of a step's prompt: the run, and the data of the step's gate. */
export function stepViewOf(run: Run, records: ReadonlyMap<string, StepRow>, step: string): RunView {
  const given = records.get(step)?.gate_inputs ?? null;
  return { ...viewOf(run, records), ...(given === null ? {} : { gate: JSON.parse(given) as unknown }) };
}

/** Values of an ended step; empty for others. */
function stepView(id: string, record: StepRow): [string, StepView][] {
  const { state, error } = record;
  if (state === 'running' || state === 'waiting') return [];
  const output = readOutput(record);
  const view = {
    state,
    ...(output === undefined ? {} : { output }),
    ...(error === null ? {} : { error }),
  };
  return [[id, view]];
}
