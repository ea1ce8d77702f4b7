import { sql } from 'kysely';
import type { StoreReader } from '../../store/index.ts';
import type { PendingChange } from '../shapes/pending-change.ts';
import { toPendingChange } from './rows.ts';

/** Maximum characters of one diff, and of all diffs of a list. */
const maxDiffLength = 256 * 1024;
const maxTotalDiffLength = 4 * 1024 * 1024;

/**
 * Lists the staged changes, oldest first. Long diffs are cut and marked as cut; approving always applies the complete
 * change. Only the shown parts are read, and nothing is written, so that it works on a full disk.
 */
export async function listStaged(db: StoreReader, now: string): Promise<PendingChange[]> {
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
  let remaining = maxTotalDiffLength;
  const withDiff = rows.filter(({ whole }) => (remaining -= Math.min(whole ?? 0, maxDiffLength)) >= 0);
  const diffs = await readDiffPrefixes(db, withDiff.at(-1)?.n ?? 0);
  return rows.map(({ whole, ...row }) => {
    if (whole === null) return toPendingChange({ ...row, diff: null });
    const prefix = diffs.get(row.id);
    const isWhole = prefix !== undefined && whole <= maxDiffLength;
    return toPendingChange({ ...row, diff: isWhole ? prefix : cutDiff(row.id, prefix ?? '', whole) });
  });
}

/** Number of staged changes. */
export async function countStaged(db: StoreReader, now: string): Promise<number> {
  const { count } = await db
    .selectFrom('pending')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('state', '=', 'staged')
    .where('expires_at', '>', now)
    .executeTakeFirstOrThrow();
  return count;
}

async function readDiffPrefixes(db: StoreReader, last: number): Promise<Map<string, string>> {
  const rows = await db
    .selectFrom('pending')
    .select('id')
    .select(sql<string>`substr(diff, 1, ${sql.lit(maxDiffLength)})`.as('beginning'))
    .where('state', '=', 'staged')
    .where('n', '<=', last)
    .where('diff', 'is not', null)
    .execute();
  return new Map(rows.map(({ id, beginning }) => [id, beginning]));
}

/** Cuts a diff at a line end, and marks it. @param length characters of the complete diff */
function cutDiff(id: string, prefix: string, length: number): string {
  const lines = prefix.slice(0, prefix.lastIndexOf('\n') + 1);
  return `${lines}\\ The rest is not shown here (${length} characters in all); GET /agent/v1/pending/${id} shows it, and approving applies it.\n`;
}
