/** How rows of accounts and keys are found, and read into what other modules use. */
import { StoreError } from '../../store/index.ts';
import {
  type GatewayDb,
  type GatewayStore,
  type GatewayTx,
  type Row,
  toStorableText,
} from '../store/index.ts';
import { LedgerError } from './errors.ts';
import type { AccountRow, KeyRow } from './types.ts';

/** Finds an account by id or by name. @throws LedgerError when there is none */
export async function findAccount(
  db: GatewayDb | GatewayTx,
  account: string,
): Promise<Row<'gateway_accounts'>> {
  const rows = await db
    .selectFrom('gateway_accounts')
    .selectAll()
    .where('kind', '=', 'user')
    .where((e) => e.or([e('id', '=', account), e('name', '=', toStorableText(account))]))
    .execute();
  const row = rows.find(({ id }) => id === account) ?? rows[0];
  if (!row)
    throw new LedgerError(
      'unknown_account',
      `There is no account "${account}"; name it by its id or its name.`,
    );
  return row;
}

/** Finds a key by its id. @throws LedgerError when there is none */
export async function findKeyById(db: GatewayDb | GatewayTx, id: string): Promise<Row<'gateway_keys'>> {
  const row = await db.selectFrom('gateway_keys').selectAll().where('id', '=', id).executeTakeFirst();
  if (!row) throw new LedgerError('unknown_key', `There is no key ${id}; key ids begin with k_.`);
  return row;
}

/** Locks an account until the end of the transaction, so that no commit of the ledger changes its sums or those of its keys. */
export async function lockAccount(store: GatewayStore, tx: GatewayTx, id: string): Promise<void> {
  // SQLite has one writer at a time.
  if (store.kind === 'postgres')
    await tx.selectFrom('gateway_accounts').select('id').where('id', '=', id).forUpdate().execute();
}

/** Runs a transaction again if its outcome is unknown. The work itself must detect that it was already done. */
export async function retryIfUnsure<T>(store: GatewayStore, work: (tx: GatewayTx) => Promise<T>): Promise<T> {
  try {
    return await store.transaction(work);
  } catch (error) {
    if (!(error instanceof StoreError && error.code === 'storage_unsure')) throw error;
    return await store.transaction(work);
  }
}

/** Converts a row. Held amounts reduce the allowance first, in the order in which they will be spent. */
export function toAccountRow(row: Row<'gateway_accounts'>): AccountRow {
  const { id, name, created_at, balance, held, allowance, included } = row;
  const remaining = balance - held;
  const allowanceRemaining = allowance > held ? allowance - held : 0n;
  const creditsRemaining = remaining - allowanceRemaining;
  return {
    id,
    name,
    createdAt: created_at,
    disabledAt: row.disabled_at ?? undefined,
    parentId: row.parent_id ?? undefined,
    balance: { remaining, included, allowanceRemaining, creditsRemaining },
    held,
  };
}

const toNumber = (value: bigint | null): number | undefined => (value === null ? undefined : Number(value));

export function toKeyRow(row: Row<'gateway_keys'>): KeyRow {
  const { id, last4, spent, held, models, revision } = row;
  return {
    id,
    accountId: row.account_id,
    label: row.label ?? undefined,
    last4,
    cap: row.cap ?? undefined,
    spent,
    held,
    models: models === null ? undefined : (JSON.parse(models) as string[]),
    createdAt: row.created_at,
    expiresAt: row.expires_at ?? undefined,
    revokedAt: row.revoked_at ?? undefined,
    disabledAt: row.disabled_at ?? undefined,
    revision,
    concurrency: toNumber(row.concurrency),
    requestsPerMinute: toNumber(row.requests_per_minute),
    tokensPerMinute: toNumber(row.tokens_per_minute),
  };
}
