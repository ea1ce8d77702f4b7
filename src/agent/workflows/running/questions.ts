import { AgentError } from '../../errors.ts';
import type { Changes } from '../../services.ts';
import type { Store } from '../../../store/index.ts';
import type { Segment } from './segment.ts';
import type { StoredGate } from './stored-gate.ts';

interface About {
  readonly runId: string;
  readonly step?: string;
}
interface Question extends Required<About> {
  readonly tool: 'approval_gate' | 'rerun_step';
  readonly agent: string;
  readonly intent: string;
  readonly summary: string;
}
interface World {
  readonly store: Store;
  readonly changes: Pick<Changes, 'ask' | 'discard'>;
}

/** Staged changes and questions of a run, or of one of its steps. */
async function open(store: Store, { runId, step }: About): Promise<{ id: string; tool: string }[]> {
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
export async function ask({ store, changes }: World, question: Question): Promise<string> {
  const same = (await open(store, question)).find(({ tool }) => tool === question.tool);
  return (same ?? (await changes.ask(question))).id;
}

/** Asks a person whether to rerun an interrupted step that may have had side effects. */
export async function askToRerun({ world, row, ensemble }: Segment, step: string): Promise<StoredGate> {
  const pending_id = await ask(world, {
    tool: 'rerun_step',
    runId: row.id,
    step,
    agent: ensemble.steps.find(({ id }) => id === step)?.agent ?? row.workflow,
    intent: `The host stopped while '${step}' was running. The step may already have made changes; check them before you decide.`,
    summary: `Run the step '${step}' of the run ${row.id} of '${row.workflow}' again from its beginning`,
  });
  return { kind: 'approval', step, since_at: world.store.time(), pending_id };
}

/** Discards a question or change. @returns false when it was decided in the meantime */
export async function withdraw({ changes }: World, id: string, by: string, why: string): Promise<boolean> {
  try {
    await changes.discard(id, by, why);
    return true;
  } catch (error) {
    if (error instanceof AgentError) return false;
    throw error;
  }
}

/** Discards all staged questions and changes of a run, or of one of its steps. */
export async function withdrawAll(world: World, about: About, by: string, why: string): Promise<void> {
  for (const { id } of await open(world.store, about)) await withdraw(world, id, by, why);
}

/** Discards staged questions and changes of ended runs, which a crash may have left. */
export async function withdrawOfEnded(world: World): Promise<void> {
  const { store } = world;
  const left = await store.read((db) =>
    db
      .selectFrom('pending')
      .innerJoin('runs', 'runs.id', 'pending.run_id')
      .select('pending.id')
      .where('pending.state', '=', 'staged')
      .where('runs.endpoint_id', '=', store.endpointId)
      .where('runs.ended_at', 'is not', null)
      .execute(),
  );
  for (const { id } of left) await withdraw(world, id, 'host', 'its run has ended');
}
