import { setImmediate } from 'node:timers/promises';
import { sql } from 'kysely';
import type { GatewayDb, GatewayStore } from '../store/index.ts';
import { nextDay, type UsageDimension, type UsagePeriod } from './query.ts';

export interface UsageQuery extends UsagePeriod {
  /** The columns of the report: at least one. */
  readonly by: readonly UsageDimension[];
  /** Only this key's usage. */
  readonly keyId?: string;
  /** Only this account's usage. */
  readonly accountId?: string;
  /** Also the usage of all accounts below it. */
  readonly withDescendants?: boolean;
}

export interface UsageTotals {
  readonly requests: bigint;
  /** All input tokens, cached ones included. */
  readonly promptTokens: bigint;
  readonly cachedTokens: bigint;
  readonly completionTokens: bigint;
  /** Nanodollars. */
  readonly spent: bigint;
}

export interface UsageLine extends UsageTotals {
  /** Values of the columns of `by`, in their order: ids of keys and accounts, `''` for no tag. */
  readonly group: readonly string[];
}

const columnOf: Readonly<Record<UsageDimension, string>> = {
  day: 'day',
  month: 'substr(day, 1, 7)',
  key: 'key_id',
  account: 'account_id',
  provider: 'provider',
  model: 'model',
  tag: 'tag',
};

/**
 * Adds up the usage of a period; the lines are in the order of their groups.
 * @param maxLines limits the memory of the report; reports of a gateway that serves requests have one
 * @returns undefined when there are more lines than `maxLines`
 */
export async function readUsage(
  store: Pick<GatewayStore, 'kind' | 'read'>,
  query: UsageQuery,
  maxLines?: number,
): Promise<readonly UsageLine[] | undefined> {
  const lines = new Map<string, Mutable<UsageLine>>();
  // SQLite answers in this thread, so a report that is limited lets other requests run after every day.
  const isSplit = store.kind === 'sqlite' && maxLines !== undefined;
  for (const period of isSplit ? daysOf(query) : [query]) {
    for (const line of await store.read((db) => readPeriod(db, { ...query, ...period }, maxLines))) {
      const id = JSON.stringify(line.group);
      const known = lines.get(id);
      if (known) addTo(known, line);
      else lines.set(id, line);
      if (maxLines !== undefined && lines.size > maxLines) return undefined;
    }
    if (isSplit) await setImmediate();
  }
  return [...lines.values()].sort((a, b) => compareGroups(a.group, b.group));
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

function addTo(sum: Mutable<UsageTotals>, added: UsageTotals): void {
  sum.requests += added.requests;
  sum.promptTokens += added.promptTokens;
  sum.cachedTokens += added.cachedTokens;
  sum.completionTokens += added.completionTokens;
  sum.spent += added.spent;
}

export function sumOf(lines: readonly UsageTotals[]): UsageTotals {
  const sum = { requests: 0n, promptTokens: 0n, cachedTokens: 0n, completionTokens: 0n, spent: 0n };
  for (const line of lines) addTo(sum, line);
  return sum;
}

function daysOf({ since, until }: UsagePeriod): UsagePeriod[] {
  const days: UsagePeriod[] = [];
  for (let day = since; day <= until; day = nextDay(day)) days.push({ since: day, until: day });
  return days;
}

/** The ids of an account and of all accounts below it. */
const accountsFrom = (id: string) => sql`
  with recursive below(id) as (
    select id from gateway_accounts where id = ${id}
    union select one.id from gateway_accounts one join below on one.parent_id = below.id
  ) select id from below`;

type Sums = Record<'requests' | 'prompt' | 'cached' | 'completion' | 'spent', bigint | number>;

/** Reads at most one line more than `maxLines`, which shows that there are too many. */
async function readPeriod(
  db: GatewayDb,
  { by, since, until, keyId, accountId, withDescendants = false }: UsageQuery,
  maxLines: number | undefined,
): Promise<UsageLine[]> {
  const columns = by.map((dimension, index) => sql.raw(`${columnOf[dimension]} as group_${index}`));
  const { rows } = await sql<Sums & Record<`group_${number}`, string>>`
    select ${sql.join(columns)}, cast(sum(requests) as bigint) as requests,
      cast(sum(prompt_tokens) as bigint) as prompt, cast(sum(cached_tokens) as bigint) as cached,
      cast(sum(completion_tokens) as bigint) as completion, cast(sum(spent) as bigint) as spent
    from gateway_usage where day >= ${since} and day <= ${until}
      ${keyId === undefined ? sql`` : sql`and key_id = ${keyId}`}
      ${accountId === undefined ? sql`` : sql`and account_id ${withDescendants ? sql`in (${accountsFrom(accountId)})` : sql`= ${accountId}`}`}
    group by ${sql.join(by.map((_, index) => sql.raw(String(index + 1))))}
    ${maxLines === undefined ? sql`` : sql`limit ${maxLines + 1}`}`.execute(db);
  return rows.map((row) => ({
    group: by.map((_, index) => row[`group_${index}`] ?? ''),
    requests: BigInt(row.requests),
    promptTokens: BigInt(row.prompt),
    cachedTokens: BigInt(row.cached),
    completionTokens: BigInt(row.completion),
    spent: BigInt(row.spent),
  }));
}

/** Compares by code units, so that the order is the same on both databases. */
export function compareGroups(a: readonly string[], b: readonly string[]): number {
  const index = a.findIndex((value, place) => value !== b[place]);
  return index === -1 ? 0 : (a[index] ?? '') < (b[index] ?? '') ? -1 : 1;
}
