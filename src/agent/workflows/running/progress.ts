import type { Ensemble, Step } from '../definition/ensemble.ts';
import type { StepRow } from './rows.ts';

type Records = ReadonlyMap<string, Pick<StepRow, 'state' | 'output'>>;

/** The next step to run; `steps` are in running order. Undefined when all have ended. */
export const nextStep = (steps: readonly Step[], records: Records): Step | undefined =>
  steps.find(({ id }) => {
    const state = records.get(id)?.state;
    return state !== 'completed' && state !== 'skipped';
  });

/** Whether all steps that a step needs were skipped; the step is then skipped, too. */
export const areAllNeedsSkipped = ({ needs }: Step, records: Records): boolean =>
  needs.length > 0 && needs.every((need) => records.get(need)?.state === 'skipped');

/** Result of a run: the output of the step that `output.from` names, or of the last completed step. */
export function runResult({ output, steps }: Pick<Ensemble, 'output' | 'steps'>, records: Records): unknown {
  const completed = steps.filter(({ id }) => records.get(id)?.state === 'completed');
  const source = output ? completed.find(({ id }) => id === output.from) : completed.at(-1);
  return source && readOutput(records.get(source.id));
}

export function readOutput(record: Pick<StepRow, 'output'> | undefined): unknown {
  return record?.output == null ? undefined : (JSON.parse(record.output) as unknown);
}
