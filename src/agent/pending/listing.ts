import { sql } from 'kysely';
import type { Db } from '../../store/index.ts';
import type { PendingChange } from '../shapes/pending-change.ts';
import { asChange } from './rows.ts';

/** Maximum characters of one diff, and of all diffs of a list. */
const longestDiff = 256 * 1024;
const allDiffs = 4 * 1024 * 1024;

/**
 * Lists the staged changes, oldest first. Long diffs are cut and marked as cut; approving always applies the complete
 * change. Only the shown parts are read, and nothing is written, so that it works on a full disk.
 */
export async function stagedChanges(db: Db, now: string): Promise<PendingChange[]> {
  const rows = await db
    .selectFrom('pending')
    .select(['id', 'n', 'endpoint_id', 'kind', 'tool', 'task_id', 'run_id', 'step', 'agent', 'session_id'])
    .select(['intent', 'summary', 'path', 'base_hash', 'risk', 'state', 'output', 'applier'])
    .select(['created_at', 'expires_at', 'decided_at', 'decided_by'])
    .select(({ fn }) => fn<number | null>('length', ['diff']).as('whole'))
    .where('state', '=', 'staged')
    .where('expires_at', '>', now)
    .orderBy('n')
    .execute();
  let left = allDiffs;
  const shown = rows.filter(({ whole }) => (left -= Math.min(whole ?? 0, longestDiff)) >= 0);
  const diffs = await beginnings(db, shown.at(-1)?.n ?? 0);
  return rows.map(({ whole, ...row }) => {
    if (whole === null) return asChange({ ...row, diff: null });
    const beginning = diffs.get(row.id);
    const isWhole = beginning !== undefined && whole <= longestDiff;
    return asChange({ ...row, diff: isWhole ? beginning : cut(row.id, beginning ?? '', whole) });
  });
}

/** Number of staged changes. */
export async function countStaged(db: Db, now: string): Promise<number> {
  const { count } = await db
    .selectFrom('pending')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('state', '=', 'staged')
    .where('expires_at', '>', now)
    .executeTakeFirstOrThrow();
  return count;
}

async function beginnings(db: Db, last: number): Promise<Map<string, string>> {
  const rows = await db
    .selectFrom('pending')
    .select('id')
    .select(sql<string>`substr(diff, 1, ${sql.lit(longestDiff)})`.as('beginning'))
    .where('state', '=', 'staged')
    .where('n', '<=', last)
    .where('diff', 'is not', null)
    .execute();
  return new Map(rows.map(({ id, beginning }) => [id, beginning]));
}

/** Cuts a diff at a line end, and marks it. @param length characters of the complete diff */
function cut(id: string, beginning: string, whole: number): string {
  const lines = beginning.slice(0, beginning.lastIndexOf('\n') + 1);
  return `${lines}\\ The rest is not shown here (${whole} characters in all); GET /agent/v1/pending/${id} shows it, and approving applies it.\n`;
}
