import type { Store } from '../../store/index.ts';

/** Key of the task that a call hands work on to. No key that comes in a header has a line break. */
export const delegationKey = (callKey: string): string => `\ndelegate ${callKey}`;

/** Completion tokens of the tasks that a conversation handed work on to, from a time on. */
export async function sumDelegatedTokens(store: Store, conversation: string, since: string): Promise<number> {
  const prefix = delegationKey(`${conversation} `);
  const { tokens } = await store.read((db) =>
    db
      .selectFrom('tasks')
      .select(({ fn }) => fn.sum<number | string | null>('completion_tokens').as('tokens'))
      .where('idempotency_key', '>=', prefix)
      .where('idempotency_key', '<', `${prefix}\u{10ffff}`)
      .where('started_at', '>=', since)
      .executeTakeFirstOrThrow(),
  );
  return Number(tokens ?? 0);
}
