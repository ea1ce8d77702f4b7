import { sql } from 'kysely';
import type { GatewayDb, GatewayStore, GatewayTx } from '../store/index.ts';
import { invalid } from '../ledger/checks.ts';

/** The most levels of accounts above an account. */
const maxLevels = 8;

const parentLock = sql`select pg_advisory_xact_lock(1818326120, hashtext('gateway parents' || coalesce(current_schema(), '')))`;

/** The ids of the accounts above an account, the nearest first. */
export async function ancestorsOf(db: GatewayDb | GatewayTx, id: string): Promise<string[]> {
  const found: string[] = [];
  for (let at: string | null = id; at !== null; ) {
    const row: { parent_id: string | null } | undefined = await db
      .selectFrom('gateway_accounts')
      .select('parent_id')
      .where('id', '=', at)
      .executeTakeFirst();
    at = row?.parent_id ?? null;
    if (at !== null) found.push(at);
    if (found.length > 2 * maxLevels) break;
  }
  return found;
}

/** Checks that an account may be below another one. One transaction at a time changes parents. @throws LedgerError */
export async function checkParent(
  store: GatewayStore,
  tx: GatewayTx,
  { id, parentId }: { readonly id: string; readonly parentId: string },
): Promise<void> {
  if (store.kind === 'postgres') await parentLock.execute(tx);
  const above = [parentId, ...(await ancestorsOf(tx, parentId))];
  if (above.includes(id))
    throw invalid(`The account ${parentId} cannot be above ${id}: it is the same account, or below it.`);
  const levels = above.length + (await levelsBelow(tx, id));
  if (levels > maxLevels)
    throw invalid(`Accounts can have up to ${maxLevels} levels of accounts above them, got ${levels}.`);
}

/** The number of levels of accounts below an account. */
async function levelsBelow(tx: GatewayTx, id: string): Promise<number> {
  let ids = [id];
  for (let levels = 0; ; levels++) {
    const rows = await tx.selectFrom('gateway_accounts').select('id').where('parent_id', 'in', ids).execute();
    if (rows.length === 0 || levels > maxLevels) return levels;
    ids = rows.map((row) => row.id);
  }
}
