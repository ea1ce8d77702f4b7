import { type Kysely, SqliteAdapter, sql } from 'kysely';

const dimensions = 'key_id day provider model tag account_id'.split(' ');
const sums = 'requests prompt_tokens cached_tokens completion_tokens spent'.split(' ');

/** A token count as it is added up: unknown is 0, and what a provider cannot have counted is cut. */
const counted = (column: string) =>
  `(case when coalesce(${column}, 0) < 1000000000 then coalesce(${column}, 0) else 1000000000 end)`;
const total = (expression: string) => `cast(sum(${expression}) as bigint)`;
const prompt = ['tokens_fresh', 'tokens_cache_write', 'tokens_cache_write_1h', 'tokens_cache_read'];

/**
 * Adds the end users' tags of requests and the usage of days, and fills the latter from all requests that ended.
 *
 * A request without a tag has the tag `''`. Null means that the request was written by a gateway of an earlier version, which
 * runs on while this database is migrated: its usage is not counted yet.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  const isSqlite = db.getExecutor().adapter instanceof SqliteAdapter;
  const text = sql.raw(isSqlite ? 'text' : 'text collate "C"');
  await sql`alter table gateway_holds add column tag ${text}`.execute(db);
  if (isSqlite) {
    await sql`alter table gateway_requests add column tag ${text}`.execute(db);
    await sql`update gateway_requests set tag = ''`.execute(db);
  } else {
    // PostgreSQL stores a default for existing rows without writing them.
    await sql`alter table gateway_requests add column tag ${text} default ''`.execute(db);
    await sql`alter table gateway_requests alter column tag drop default`.execute(db);
  }
  await sql`create index gateway_requests_uncounted on gateway_requests (account_id) where tag is null`.execute(
    db,
  );
  let table = db.schema.createTable('gateway_usage');
  for (const column of dimensions)
    table = table.addColumn(column, sql`${text}`, (one) => one.notNull()) as typeof table;
  for (const column of sums)
    table = table.addColumn(column, 'bigint', (one) => one.notNull()) as typeof table;
  const keyed = table.addPrimaryKeyConstraint('gateway_usage_key', [
    'key_id',
    'day',
    'provider',
    'model',
    'tag',
  ] as never[]);
  await (isSqlite ? keyed.modifyEnd(sql`without rowid`) : keyed).execute();
  await sql`insert into gateway_usage (${sql.raw([...dimensions, ...sums].join(', '))})
    select key_id, substr(ended_at, 1, 10), provider, effective_model, '', min(account_id), count(*),
      ${sql.raw(total(prompt.map(counted).join(' + ')))},
      ${sql.raw(total(counted('tokens_cache_read')))},
      ${sql.raw(total(counted('tokens_output')))},
      ${sql.raw(total('charged'))}
    from gateway_requests where ended <> 'refused'
    group by key_id, substr(ended_at, 1, 10), provider, effective_model`.execute(db);
}
