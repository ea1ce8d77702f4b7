import type { Session } from '../../shapes/session.ts';
import type { RunDetail, RunRecord, StepRecord } from '../../shapes/run.ts';
import { cycleOf, type RunRow, type StepRow } from './rows.ts';
import { readGate } from './stored-gate.ts';

/** How rows are presented. Without `cancelledState`, cancelled runs are shown as failed. */
export interface Showing {
  readonly cancelledState: boolean;
}

export function toRecord(row: RunRow, showing: Showing): RunRecord {
  const { ended_at, retried_from, wrapper_cycle } = row;
  const outcome = row.outcome === null ? undefined : shown(row.outcome, showing);
  return {
    id: row.id,
    workflow: row.workflow,
    digest: row.digest,
    state: shown(row.state, showing),
    ...(outcome === undefined ? {} : { outcome }),
    started_at: row.started_at,
    ...(ended_at === null ? {} : { ended_at }),
    ...(retried_from === null ? {} : { retried_from }),
    ...(wrapper_cycle === null ? {} : { wrapper_cycle }),
  };
}

/** @param steps in the order in which they ran */
export function toDetail(row: RunRow, steps: readonly StepRow[], showing: Showing): RunDetail {
  const gate = readGate(row.gate);
  return {
    ...toRecord(row, showing),
    ...observed(row),
    ...(gate ? { gate: { ...gate } } : {}),
    step_records: steps.map((step) => toStepRecord(step, cycleOf(row) > 0)),
    ...(row.result === null ? {} : { result: JSON.parse(row.result) as unknown }),
    inputs: JSON.parse(row.inputs) as Record<string, unknown>,
  };
}

/** A run as a row of the session feed. */
export function toSession(row: RunRow, showing: Showing): Session {
  const { wrapper_cycle } = row;
  return {
    id: row.id,
    kind: 'run',
    title: row.workflow,
    state: shown(row.state, showing),
    started_at: row.started_at,
    ...(row.ended_at === null ? {} : { ended_at: row.ended_at }),
    ...observed(row),
    ...(wrapper_cycle === null ? {} : { wrapper_cycle }),
  };
}

/** Whether a run can be cancelled. A segment that resume, run-now or a gate dispatched cannot. */
export const isCancellable = ({ state, resumed }: RunRow): boolean =>
  state === 'suspended' || ((state === 'running' || state === 'paused') && resumed === 0);

function observed(row: RunRow) {
  const { waiting_on, suspend_kind, last_event, engine, model, prompt_tokens, completion_tokens } = row;
  return {
    cancellable: isCancellable(row),
    ...(waiting_on === null ? {} : { waiting_on: waiting_on as NonNullable<Session['waiting_on']> }),
    ...(suspend_kind === null ? {} : { suspend_kind }),
    ...(last_event === null ? {} : { last_event }),
    ...(engine === null || model === null ? {} : { route: { engine, model } }),
    ...(prompt_tokens === null || completion_tokens === null
      ? {}
      : { tokens: { prompt: prompt_tokens, completion: completion_tokens } }),
  };
}

function toStepRecord(step: StepRow, inCycles: boolean): StepRecord {
  return {
    id: step.step,
    state: step.state,
    attempts: step.attempts,
    started_at: step.started_at,
    ...(step.ended_at === null ? {} : { ended_at: step.ended_at }),
    ...(step.output === null ? {} : { output: JSON.parse(step.output) as unknown }),
    ...(step.error === null ? {} : { error: step.error }),
    ...(inCycles ? { cycle: step.cycle } : {}),
  };
}

export const shown = <State extends string>(state: State, { cancelledState }: Showing): State | 'failed' =>
  state === 'cancelled' && !cancelledState ? 'failed' : state;
