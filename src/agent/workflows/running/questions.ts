import { AgentError } from '../../errors.ts';
import type { PendingChangeService } from '../../services.ts';
import type { Store } from '../../../store/index.ts';
import type { Scope } from './scope.ts';
import type { Segment } from './segment.ts';
import type { StoredGate } from './stored-gate.ts';

interface StagedFilter {
  readonly runId: string;
  readonly step?: string;
}
interface Question extends Required<StagedFilter> {
  readonly tool: 'approval_gate' | 'rerun_step';
  readonly agent: string;
  readonly intent: string;
  readonly summary: string;
}
interface QuestionServices {
  readonly store: Store;
  readonly changes: Pick<PendingChangeService, 'ask' | 'discard'>;
}

/** Staged changes and questions of a run, or of one of its steps. */
async function listStaged(
  store: Store,
  { runId, step }: StagedFilter,
): Promise<{ id: string; tool: string }[]> {
  return await store.read((db) => {
    const rows = db
      .selectFrom('pending')
      .select(['id', 'tool'])
      .where('run_id', '=', runId)
      .where('state', '=', 'staged')
      .orderBy('n');
    return (step === undefined ? rows : rows.where('step', '=', step)).execute();
  });
}

/** Stages a question. A question that was staged before a crash is reused. */
export async function askOnce({ store, changes }: QuestionServices, question: Question): Promise<string> {
  const existing = (await listStaged(store, question)).find(({ tool }) => tool === question.tool);
  return (existing ?? (await changes.ask(question))).id;
}

/** Asks a person whether to rerun an interrupted step that may have had side effects. */
export async function askWhetherToRerun(
  { services, row, workflows, records }: Segment,
  step: string,
): Promise<StoredGate> {
  const pending_id = await askOnce(services, {
    tool: 'rerun_step',
    runId: row.id,
    step,
    agent: agentOf(workflows.scopeOf(row, records, step), step) ?? row.workflow,
    intent: `The host stopped while '${step}' was running. The step may already have made changes; check them before you decide.`,
    summary: `Run the step '${step}' of the run ${row.id} of '${row.workflow}' again from its beginning`,
  });
  return { kind: 'approval', step, since_at: services.store.time(), pending_id };
}

/** The agent of a step; `ID[0]` is one of the steps that the step `ID` consists of. */
function agentOf({ ensemble, prefix }: Scope, step: string): string | undefined {
  const ownId = step.slice(prefix.length).replace(/\[\d+\]$/, '');
  return ensemble.steps.find(({ id }) => id === ownId)?.agent;
}

/** Discards a question or change. @returns false when it was decided in the meantime */
export async function discardStaged(
  { changes }: QuestionServices,
  id: string,
  by: string,
  note: string,
): Promise<boolean> {
  try {
    await changes.discard(id, by, note);
    return true;
  } catch (error) {
    if (error instanceof AgentError) return false;
    throw error;
  }
}

/** Discards all staged questions and changes of a run, or of one of its steps. */
export async function discardAllStaged(
  services: QuestionServices,
  filter: StagedFilter,
  by: string,
  note: string,
): Promise<void> {
  for (const { id } of await listStaged(services.store, filter)) await discardStaged(services, id, by, note);
}

/** Discards staged questions and changes of ended runs, which a crash may have left. */
export async function discardStagedOfEndedRuns(services: QuestionServices): Promise<void> {
  const { store } = services;
  const remaining = await store.read((db) =>
    db
      .selectFrom('pending')
      .innerJoin('runs', 'runs.id', 'pending.run_id')
      .select('pending.id')
      .where('pending.state', '=', 'staged')
      .where('runs.endpoint_id', '=', store.endpointId)
      .where('runs.ended_at', 'is not', null)
      .execute(),
  );
  for (const { id } of remaining) await discardStaged(services, id, 'host', 'its run has ended');
}
