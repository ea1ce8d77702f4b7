import type { Insertable, Selectable, Updateable } from 'kysely';
import type { StoreReader, Tables, Tx } from '../../../store/index.ts';

/** Rows of runs and their steps; `src/store/schema.ts` documents the columns. */
export type RunRow = Selectable<Tables['runs']>;
export type StepRow = Selectable<Tables['run_steps']>;

export async function findRun(db: StoreReader | Tx, id: string): Promise<RunRow | undefined> {
  return await db.selectFrom('runs').selectAll().where('id', '=', id).executeTakeFirst();
}

/** The step rows of one cycle, by step id. */
export async function findSteps(
  db: StoreReader | Tx,
  runId: string,
  cycle: number,
): Promise<Map<string, StepRow>> {
  const rows = await db
    .selectFrom('run_steps')
    .selectAll()
    .where('run_id', '=', runId)
    .where('cycle', '=', cycle)
    .execute();
  return new Map(rows.map((row) => [row.step, row]));
}

/** The current cycle of a run; 0 when it has no cycles. */
export const currentCycle = ({ wrapper_cycle }: Pick<RunRow, 'wrapper_cycle'>): number => wrapper_cycle ?? 0;

/** Inserts or updates a step's row. */
export async function upsertStep(tx: Tx, row: StepRow): Promise<void> {
  const { run_id: _run, cycle: _cycle, step: _step, ...changed } = row;
  await tx
    .insertInto('run_steps')
    .values(row)
    .onConflict((conflict) => conflict.columns(['run_id', 'cycle', 'step']).doUpdateSet(changed))
    .execute();
}

/** Runs of this host that have not ended, newest first. */
export async function listLiveRuns(db: StoreReader | Tx, endpointId: string): Promise<RunRow[]> {
  const rows = await db
    .selectFrom('runs')
    .selectAll()
    .where('endpoint_id', '=', endpointId)
    .where('state', 'in', ['running', 'paused', 'suspended'])
    .where('ended_at', 'is', null)
    .execute();
  // Sorted here, because with ORDER BY SQLite would scan all runs in that order.
  return rows.sort(newestFirst);
}

const newestFirst = (a: RunRow, b: RunRow): number =>
  a.started_at === b.started_at ? (a.id < b.id ? 1 : -1) : a.started_at < b.started_at ? 1 : -1;

/** Updates a run that is in one of the given states; undefined when it is not. */
export async function updateRun(
  tx: Tx,
  id: string,
  states: readonly RunRow['state'][],
  change: Updateable<Tables['runs']>,
): Promise<RunRow | undefined> {
  return await tx
    .updateTable('runs')
    .set(change)
    .where('id', '=', id)
    .where('state', 'in', states)
    .returningAll()
    .executeTakeFirst();
}

export type NewRun = Insertable<Tables['runs']>;
