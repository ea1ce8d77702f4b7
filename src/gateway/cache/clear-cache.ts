import type { ChangeLog } from '../ledger/change-log.ts';
import type { GatewayStore } from '../store/index.ts';

/**
 * Removes stored answers, of one account or of all, and logs it. Requests under way can store theirs afterwards.
 * @returns how many
 */
export async function clearCache(
  { store, changeLog }: { readonly store: GatewayStore; readonly changeLog: ChangeLog },
  accountId: string | undefined,
): Promise<number> {
  let removed = 0;
  await changeLog.apply(
    async (tx) => {
      const all = tx.deleteFrom('gateway_cache');
      const { numDeletedRows } = await (accountId === undefined
        ? all
        : all.where('account_id', '=', accountId)
      ).executeTakeFirstOrThrow();
      removed = Number(numDeletedRows);
      return {
        ...(accountId === undefined ? {} : { accountId }),
        subject: accountId ?? 'cache',
        action: 'cache.clear',
        after: { removed },
      };
    },
    () => Promise.resolve(undefined),
  );
  return removed;
}
