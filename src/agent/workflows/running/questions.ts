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

/** What waits for a person because of a run, or of one of its steps. */
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

/** Asks a person; a question that was asked already, before a crash, is not asked again. */
export async function ask({ store, changes }: World, question: Question): Promise<string> {
  const same = (await open(store, question)).find(({ tool }) => tool === question.tool);
  return (same ?? (await changes.ask(question))).id;
}

/** A crash cut a step short that may have had effects: whether it is to be run again, a person says. */
export async function askToRerun({ world, row, ensemble }: Segment, step: string): Promise<StoredGate> {
  const pending_id = await ask(world, {
    tool: 'rerun_step',
    runId: row.id,
    step,
    agent: ensemble.steps.find(({ id }) => id === step)?.agent ?? row.workflow,
    intent: `The host stopped while '${step}' was at work. It may have changed something already; look before you decide.`,
    summary: `Run the step '${step}' of the run ${row.id} of '${row.workflow}' again from its beginning`,
  });
  return { kind: 'approval', step, since_at: world.store.time(), pending_id };
}

/** Nobody needs to decide this any more. Whether it could be withdrawn: it may have been decided meanwhile. */
export async function withdraw({ changes }: World, id: string, by: string, why: string): Promise<boolean> {
  try {
    await changes.discard(id, by, why);
    return true;
  } catch (error) {
    if (error instanceof AgentError) return false;
    throw error;
  }
}

/** Withdraws what nobody is at work on any more. */
export async function withdrawAll(world: World, about: About, by: string, why: string): Promise<void> {
  for (const { id } of await open(world.store, about)) await withdraw(world, id, by, why);
}

/** A crash may have come between the end of a run and the end of its questions. */
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
  for (const { id } of left) await withdraw(world, id, 'host', 'its run is over');
}
