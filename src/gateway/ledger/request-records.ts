import type { GatewayStore, Row } from '../store/index.ts';
import { LedgerError } from './errors.ts';
import type { RequestRecord, RequestQuery, RequestRow } from './types.ts';

/**
 * Finds a key's request.
 * @returns undefined when the key sent no request with this id, or one that was refused before its price was known
 */
export async function findRequest(
  store: GatewayStore,
  keyId: string,
  requestId: string,
): Promise<RequestRow | 'running' | undefined> {
  const found = await findRequestRecord(store, requestId, keyId);
  return found?.hold ? 'running' : found?.row;
}

/**
 * Finds a request, the hold that it has while it runs, and what it moved between accounts.
 * @param keyId undefined: of any key
 * @returns undefined when there is none with this id, or its day is archived
 */
export async function findRequestRecord(
  store: GatewayStore,
  requestId: string,
  keyId?: string,
): Promise<RequestRecord | undefined> {
  return await store.read(async (db) => {
    // Holds are read first: a request that ends between the two statements is then found as ended.
    const hold = await db
      .selectFrom('gateway_holds')
      .selectAll()
      .where('request_id', '=', requestId)
      .$if(keyId !== undefined, (query) => query.where('key_id', '=', keyId ?? ''))
      .executeTakeFirst();
    if (hold) return { hold, row: undefined, entries: [] };
    const row = await db
      .selectFrom('gateway_requests')
      .selectAll()
      .where('id', '=', requestId)
      .$if(keyId !== undefined, (query) => query.where('key_id', '=', keyId ?? ''))
      .executeTakeFirst();
    if (!row) return undefined;
    const entries = await db
      .selectFrom('gateway_entries as entry')
      .innerJoin('gateway_transactions as moved', (join) =>
        join.onRef('moved.reference', '=', 'entry.reference').onRef('moved.kind', '=', 'entry.kind'),
      )
      .select(['moved.at', 'entry.kind', 'entry.account_id', 'entry.amount'])
      .where('entry.reference', '=', requestId)
      .orderBy('entry.amount')
      .orderBy('entry.account_id')
      .execute();
    return {
      hold: undefined,
      row,
      entries: entries.map(({ account_id: accountId, ...entry }) => ({ ...entry, accountId })),
    };
  });
}

/** Requests that ended, the newest first. @throws LedgerError where `before` names no request */
export async function listRequests(
  store: GatewayStore,
  { accountId, keyId, hasFailed, since, before, limit }: RequestQuery,
): Promise<RequestRow[]> {
  return await store.read(async (db) => {
    let query = db.selectFrom('gateway_requests').selectAll();
    if (before !== undefined) {
      const last: Pick<Row<'gateway_requests'>, 'ended_at'> | undefined = await db
        .selectFrom('gateway_requests')
        .select('ended_at')
        .where('id', '=', before)
        .executeTakeFirst();
      if (!last) throw unknownRequest(before);
      // The first condition is that of the index.
      query = query
        .where('ended_at', '<=', last.ended_at)
        .where((where) => where.or([where('ended_at', '<', last.ended_at), where('id', '<', before)]));
    }
    if (accountId !== undefined) query = query.where('account_id', '=', accountId);
    if (keyId !== undefined) query = query.where('key_id', '=', keyId);
    if (since !== undefined) query = query.where('ended_at', '>=', since);
    // A request whose gateway died has no outcome.
    if (hasFailed)
      query = query.where((where) =>
        where.or([where('outcome', 'is', null), where('outcome', 'in', ['failed', 'cut'])]),
      );
    return await query.orderBy('ended_at', 'desc').orderBy('id', 'desc').limit(limit).execute();
  });
}

export const unknownRequest = (id: string): LedgerError =>
  new LedgerError(
    'unknown_request',
    `There is no request '${id.slice(0, 100)}'; the id is in the header x-svc-request-id of its answer. Requests of archived days are in their files only.`,
  );
