import type { GatewayStore } from '../store/index.ts';
import type { RequestRow } from './types.ts';

/**
 * Finds a key's request.
 * @returns undefined when the key sent no request with this id, or one that was refused before its price was known
 */
export async function findRequest(
  store: GatewayStore,
  keyId: string,
  requestId: string,
): Promise<RequestRow | 'running' | undefined> {
  return await store.read(async (db) => {
    // Holds are read first: a request that ends between the two statements is then found as ended.
    const hold = await db
      .selectFrom('gateway_holds')
      .select('request_id')
      .where('request_id', '=', requestId)
      .where('key_id', '=', keyId)
      .executeTakeFirst();
    if (hold) return 'running';
    return await db
      .selectFrom('gateway_requests')
      .selectAll()
      .where('id', '=', requestId)
      .where('key_id', '=', keyId)
      .executeTakeFirst();
  });
}
