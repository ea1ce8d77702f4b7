import { sql } from 'kysely';
import { type GatewayStore, insertInto, type Row } from '../store/index.ts';
import type { RequestRow } from '../ledger/types.ts';

export type UsageRow = Row<'gateway_usage'>;

/** Upper limit of a token count: a provider may report any number, and the sums must fit 64 bits. */
const maxTokens = 1_000_000_000n;
const toCount = (tokens: bigint | null): bigint =>
  tokens === null ? 0n : tokens < maxTokens ? tokens : maxTokens;

/** What a request adds to the usage. */
export const usageOf = (request: RequestRow): UsageRow => {
  const cached = toCount(request.tokens_cache_read);
  const fresh = toCount(request.tokens_fresh);
  const written = toCount(request.tokens_cache_write) + toCount(request.tokens_cache_write_1h);
  return {
    key_id: request.key_id,
    day: request.ended_at.slice(0, 10),
    provider: request.provider,
    model: request.effective_model,
    tag: request.tag ?? '',
    account_id: request.account_id,
    requests: 1n,
    prompt_tokens: fresh + written + cached,
    cached_tokens: cached,
    completion_tokens: toCount(request.tokens_output),
    spent: request.charged,
  };
};

export const usageSums = [
  'requests',
  'prompt_tokens',
  'cached_tokens',
  'completion_tokens',
  'spent',
] as const;
/** The other columns: what the sums belong to. The account follows from the key. */
export const usageGroup = ['key_id', 'day', 'provider', 'model', 'tag', 'account_id'] as const;

/** Adds up the usage of the requests of one commit, so that each row is written once. */
export class UsageSums {
  readonly #rows = new Map<string, { -readonly [K in keyof UsageRow]: UsageRow[K] }>();

  add(request: RequestRow): void {
    const added = usageOf(request);
    const id = JSON.stringify([added.key_id, added.day, added.provider, added.model, added.tag]);
    const row = this.#rows.get(id);
    if (row) for (const name of usageSums) row[name] += added[name];
    else this.#rows.set(id, { ...added });
  }

  rows(): UsageRow[] {
    return [...this.#rows.values()];
  }
}

const conflict = `on conflict (key_id, day, provider, model, tag) do update
  set ${usageSums.map((name) => `${name} = gateway_usage.${name} + excluded.${name}`).join(', ')}`;

/**
 * The statement that adds to the stored sums. It belongs to the transaction that inserts the requests, which has locked their
 * accounts: a usage row is written by one transaction at a time.
 */
export const addUsage = insertInto('gateway_usage', conflict);

const countSql = (column: string) =>
  `(case when coalesce(${column}, 0) < ${maxTokens} then coalesce(${column}, 0) else ${maxTokens} end)`;

/** `usageOf` as columns of a select of `gateway_requests`, by name. */
export const usageColumns = {
  key_id: 'key_id',
  day: 'substr(ended_at, 1, 10)',
  provider: 'provider',
  model: 'effective_model',
  tag: "coalesce(tag, '')",
  account_id: 'account_id',
  requests: '1',
  prompt_tokens: ['tokens_fresh', 'tokens_cache_write', 'tokens_cache_write_1h', 'tokens_cache_read']
    .map(countSql)
    .join(' + '),
  cached_tokens: countSql('tokens_cache_read'),
  completion_tokens: countSql('tokens_output'),
  spent: 'charged',
} as const satisfies Record<keyof UsageRow, string>;

/** An insert of the usage of the rows of `from`, which has the columns of `gateway_requests`. */
const addUsageOf = (from: string): string =>
  `insert into gateway_usage (${[...usageGroup, ...usageSums].join(', ')})
   select ${usageGroup.map((name) => usageColumns[name]).join(', ')},
     ${usageSums.map((name) => `cast(sum(${usageColumns[name]}) as bigint)`).join(', ')}
   from ${from} where ended <> 'refused' group by 1, 2, 3, 4, 5, 6 ${conflict}`;

/**
 * Counts the requests that gateways of an earlier version wrote: these run on for a while when the gateways of a database are
 * replaced one after the other. Several gateways may do this at the same time.
 */
export async function countUncounted(store: GatewayStore): Promise<void> {
  const find = sql<{ account_id: string }>`
    select distinct account_id from gateway_requests where tag is null order by account_id`;
  const { rows } = await store.read((db) => find.execute(db));
  if (rows.length === 0) return;
  await store.transaction(async (tx) => {
    if (store.kind === 'sqlite') {
      await sql.raw(addUsageOf('(select * from gateway_requests where tag is null)')).execute(tx);
      await sql`update gateway_requests set tag = '' where tag is null`.execute(tx);
      return;
    }
    const accounts = rows.map(({ account_id }) => account_id);
    await sql`select id from gateway_accounts where id in (${sql.join(accounts)}) order by id for update`.execute(
      tx,
    );
    // One statement: a row that is inserted meanwhile is either counted and marked, or neither.
    await sql`with counted as (
        update gateway_requests set tag = '' where tag is null and account_id in (${sql.join(accounts)})
        returning *
      ) ${sql.raw(addUsageOf('counted'))}`.execute(tx);
  });
}
