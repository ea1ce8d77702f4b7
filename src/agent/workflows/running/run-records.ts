import type { Session } from '../../shapes/session.ts';
import type { RunDetail, RunRecord, StepRecord } from '../../shapes/run.ts';
import { currentCycle, type RunRow, type StepRow } from './rows.ts';
import { parseGate } from './stored-gate.ts';

/** How rows are presented. Without `cancelledState`, cancelled runs are shown as failed. */
export interface PresentationOptions {
  readonly cancelledState: boolean;
}

export function toRunRecord(row: RunRow, presentation: PresentationOptions): RunRecord {
  const { ended_at, retried_from, wrapper_cycle } = row;
  const outcome = row.outcome === null ? undefined : presentState(row.outcome, presentation);
  return {
    id: row.id,
    workflow: row.workflow,
    digest: row.digest,
    state: presentState(row.state, presentation),
    ...(outcome === undefined ? {} : { outcome }),
    started_at: row.started_at,
    ...(ended_at === null ? {} : { ended_at }),
    ...(retried_from === null ? {} : { retried_from }),
    ...(wrapper_cycle === null ? {} : { wrapper_cycle }),
  };
}

/** @param steps in the order in which they ran */
export function toRunDetail(
  row: RunRow,
  steps: readonly StepRow[],
  presentation: PresentationOptions,
): RunDetail {
  const gate = parseGate(row.gate);
  return {
    ...toRunRecord(row, presentation),
    ...observedMembers(row),
    ...(gate ? { gate: { ...gate } } : {}),
    step_records: steps.map((step) => toStepRecord(step, currentCycle(row) > 0)),
    ...(row.result === null ? {} : { result: JSON.parse(row.result) as unknown }),
    inputs: JSON.parse(row.inputs) as Record<string, unknown>,
  };
}

/** A run as a row of the session feed. */
export function toRunSession(row: RunRow, presentation: PresentationOptions): Session {
  const { wrapper_cycle } = row;
  return {
    id: row.id,
    kind: 'run',
    title: row.workflow,
    state: presentState(row.state, presentation),
    started_at: row.started_at,
    ...(row.ended_at === null ? {} : { ended_at: row.ended_at }),
    ...observedMembers(row),
    ...(wrapper_cycle === null ? {} : { wrapper_cycle }),
  };
}

/** Whether a run can be cancelled. A segment that resume, run-now or a gate dispatched cannot. */
export const isCancellable = ({ state, resumed }: RunRow): boolean =>
  state === 'suspended' || ((state === 'running' || state === 'paused') && resumed === 0);

function observedMembers(row: RunRow) {
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

function toStepRecord(step: StepRow, hasCycles: boolean): StepRecord {
  return {
    id: step.step,
    state: step.state,
    attempts: step.attempts,
    started_at: step.started_at,
    ...(step.ended_at === null ? {} : { ended_at: step.ended_at }),
    ...(step.output === null ? {} : { output: JSON.parse(step.output) as unknown }),
    ...(step.error === null ? {} : { error: step.error }),
    ...(hasCycles ? { cycle: step.cycle } : {}),
  };
}

export const presentState = <State extends string>(
  state: State,
  { cancelledState }: PresentationOptions,
): State | 'failed' => (state === 'cancelled' && !cancelledState ? 'failed' : state);
