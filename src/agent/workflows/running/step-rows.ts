import type { Step } from '../definition/ensemble.ts';
import { currentCycle, type RunRow, type StepRow } from './rows.ts';

/** Row of a step in a new state; an existing row keeps its other columns. */
export function nextStepRow(
  row: Pick<RunRow, 'id' | 'wrapper_cycle'>,
  step: Pick<Step, 'id'>,
  records: ReadonlyMap<string, StepRow>,
  now: string,
  state: StepRow['state'],
): StepRow {
  const existing = records.get(step.id);
  if (existing) return { ...existing, state };
  return {
    run_id: row.id,
    cycle: currentCycle(row),
    step: step.id,
    position: records.size,
    state,
    attempts: 0,
    side_effects: 0,
    gate_inputs: null,
    started_at: now,
    ended_at: null,
    output: null,
    error: null,
  };
}
