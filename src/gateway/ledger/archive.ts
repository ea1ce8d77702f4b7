import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { sql } from 'kysely';
import { errorMessage } from '../../util/error-message.ts';
import type { GatewayStore, GatewayTx, Row } from '../store/index.ts';
import { countUncounted } from '../usage/rollups.ts';
import {
  ArchiveExistsError,
  type ArchivedRequest,
  digestOf,
  readArchive,
  writeArchive,
} from './archive-file.ts';
import { LedgerError } from './errors.ts';

/** A day whose requests are in a file. */
export interface ArchivedDay {
  readonly day: string;
  readonly file: string;
  readonly requests: number;
}

type ArchiveRow = Row<'gateway_archives'>;
type Sums = Map<string, bigint>;

const dayMs = 24 * 60 * 60 * 1000;

/** Requests of yesterday and today stay: a gateway whose clock is late may still end one there. */
const minAgeDays = 1;
/** Requests that are read, or removed in one transaction: gateways commit in between. */
const chunkSize = 500;
const referenceOf = (day: string) => `archive-${day}`;

const add = (sums: Sums, id: string, amount: bigint) => sums.set(id, (sums.get(id) ?? 0n) + amount);

/**
 * Moves the requests of all days before one, with the transactions that settled them, to a file for each day. What they
 * moved stays in the ledger as one transaction of that day, so that the entries of every account still add up to its balance.
 * A call that is interrupted is continued by the next one with the same folder.
 * @param before the first day that stays, as `2026-01-31`; no request may end on an earlier day any more
 * @throws LedgerError when the file of a day that is partly removed is not in the folder, or another file has its name
 */
export async function archiveDays(
  store: GatewayStore,
  { before, folder, onDay }: { before: string; folder: string; onDay?: (day: ArchivedDay) => void },
): Promise<ArchivedDay[]> {
  const newest = new Date(store.now().getTime() - minAgeDays * dayMs).toISOString().slice(0, 10);
  if (before > newest)
    throw new LedgerError(
      'invalid',
      `The requests of ${newest} and later stay: archive those before it, not before ${before}.`,
    );
  await countUncounted(store);
  const archived: ArchivedDay[] = [];
  for (const day of await findDays(store, before)) {
    const path = join(folder, `${referenceOf(day)}.jsonl.gz`);
    const archive = (await findArchive(store, day)) ?? (await writeDay(store, day, path));
    if (archive.removed < archive.requests) {
      await expectFile(archive, folder);
      await removeDay(store, archive, path);
      const done = { day, file: archive.file, requests: Number(archive.requests) };
      archived.push(done);
      onDay?.(done);
    }
  }
  return archived;
}

const findArchive = (store: GatewayStore, day: string): Promise<ArchiveRow | undefined> =>
  store.read((db) => db.selectFrom('gateway_archives').selectAll().where('day', '=', day).executeTakeFirst());

/** The days before one that have requests, from the index of their ends. */
async function findDays(store: GatewayStore, before: string): Promise<string[]> {
  const days: string[] = [];
  for (let from = ''; ; ) {
    const row = await store.read((db) =>
      db
        .selectFrom('gateway_requests')
        .select('ended_at')
        .where('ended_at', '>=', from)
        .where('ended_at', '<', before)
        .orderBy('ended_at')
        .limit(1)
        .executeTakeFirst(),
    );
    if (!row) return days;
    const day = row.ended_at.slice(0, 10);
    days.push(day);
    from = dayAfter(day);
  }
}

const dayAfter = (day: string): string =>
  new Date(Date.parse(`${day}T00:00:00Z`) + dayMs).toISOString().slice(0, 10);

async function writeDay(store: GatewayStore, day: string, path: string): Promise<ArchiveRow> {
  let requests = 0n;
  const counted = async function* () {
    for await (const line of linesOf(store, day)) {
      requests += 1n;
      yield line;
    }
  };
  const file = `${referenceOf(day)}.jsonl.gz`;
  const exists = () =>
    new LedgerError(
      'archive_exists',
      `There is another archive of ${day}: of another database with the same folder, or of an archive command that runs at the same time. Name a folder that has no ${file}, or archive again.`,
    );
  const digest = await writeArchive(path, counted()).catch((error: unknown) => {
    throw error instanceof ArchiveExistsError ? exists() : error;
  });
  const archive = { day, file, digest, requests, removed: 0n, created_at: store.time() };
  await store.transaction((tx) =>
    tx
      .insertInto('gateway_archives')
      .values(archive)
      .onConflict((oc) => oc.column('day').doNothing())
      .execute(),
  );
  // Another command may have been first, and have removed requests before they were read here.
  const stored = await findArchive(store, day);
  if (stored?.digest !== digest) throw exists();
  return stored;
}

/** The requests of a day with their entries, in the order of their ends. */
async function* linesOf(store: GatewayStore, day: string): AsyncGenerator<object> {
  for (let last = { ended_at: day, id: '' }; ; ) {
    const requests = await store.read((db) =>
      db
        .selectFrom('gateway_requests')
        .selectAll()
        .where('ended_at', '>=', last.ended_at)
        .where('ended_at', '<', dayAfter(day))
        .where((eb) => eb.or([eb('ended_at', '>', last.ended_at), eb('id', '>', last.id)]))
        .orderBy('ended_at')
        .orderBy('id')
        .limit(chunkSize)
        .execute(),
    );
    const end = requests.at(-1);
    if (!end) return;
    last = end;
    const entries = await store.read((db) =>
      db
        .selectFrom('gateway_entries')
        .selectAll()
        .where('kind', '=', 'settle')
        .where(
          'reference',
          'in',
          requests.map(({ id }) => id),
        )
        .execute(),
    );
    const byRequest = Map.groupBy(entries, ({ reference }) => reference);
    for (const request of requests)
      yield {
        request,
        entries: (byRequest.get(request.id) ?? []).map(({ account_id, amount }) => ({ account_id, amount })),
      };
  }
}

/** @throws LedgerError when a day's file is missing or was changed */
async function expectFile({ day, file, digest }: ArchiveRow, folder: string): Promise<void> {
  const fault = await fileFault(join(folder, file), digest);
  if (fault !== undefined)
    throw new LedgerError(
      'archive_missing',
      `The requests of ${day} are archived in ${file} and not all of them are removed from the database yet, but in ${folder} that file ${fault}.`,
    );
}

async function fileFault(path: string, digest: string): Promise<string | undefined> {
  if (!existsSync(path)) return 'is missing';
  const found = await digestOf(path);
  return found === digest ? undefined : `has the SHA-256 ${found}, not ${digest}`;
}

/** Removes the requests of an archive from the database. */
async function removeDay(store: GatewayStore, { day }: ArchiveRow, path: string): Promise<void> {
  let ids: string[] = [];
  const remove = async () => {
    const chunk = ids;
    ids = [];
    if (chunk.length > 0) await store.transaction((tx) => removeRequests(tx, day, chunk));
  };
  for await (const { request } of readArchive(path)) {
    ids.push(request.id);
    if (ids.length === chunkSize) await remove();
  }
  await remove();
}

/** Removes requests that are still there; what they moved is added to the transaction of the day. */
async function removeRequests(tx: GatewayTx, day: string, ids: readonly string[]): Promise<void> {
  const requests = await tx
    .deleteFrom('gateway_requests')
    .where('id', 'in', ids)
    .returning(['id', 'key_id', 'account_id', 'charged', 'ended'])
    .execute();
  if (requests.length === 0) return;
  // Locks the day: another call adds to its sums after this one.
  await tx
    .updateTable('gateway_archives')
    .set((eb) => ({ removed: eb('removed', '+', BigInt(requests.length)) }))
    .where('day', '=', day)
    .execute();
  const removed = requests.map(({ id }) => id);
  const entries = await tx
    .deleteFrom('gateway_entries')
    .where('kind', '=', 'settle')
    .where('reference', 'in', removed)
    .returning(['account_id', 'amount'])
    .execute();
  await tx
    .deleteFrom('gateway_transactions')
    .where('kind', '=', 'settle')
    .where('reference', 'in', removed)
    .execute();
  await addToArchived(tx, day, requests);
  const moved: Sums = new Map();
  for (const { account_id, amount } of entries) add(moved, account_id, amount);
  await addToTransaction(tx, day, moved);
}

async function addToArchived(
  tx: GatewayTx,
  day: string,
  requests: readonly Pick<Row<'gateway_requests'>, 'key_id' | 'account_id' | 'charged' | 'ended'>[],
): Promise<void> {
  const counted = requests.filter(({ ended }) => ended !== 'refused');
  for (const [key_id, own] of Map.groupBy(counted, (request) => request.key_id)) {
    const spent = own.reduce((sum, { charged }) => sum + charged, 0n);
    const account_id = own[0]?.account_id ?? '';
    await tx
      .insertInto('gateway_archived')
      .values({ day, key_id, account_id, requests: BigInt(own.length), spent })
      .onConflict((oc) =>
        oc.columns(['day', 'key_id']).doUpdateSet({
          requests: sql`gateway_archived.requests + excluded.requests`,
          spent: sql`gateway_archived.spent + excluded.spent`,
        }),
      )
      .execute();
  }
}

/** Adds amounts to the entries of the day's transaction. An entry of zero does not exist. */
async function addToTransaction(tx: GatewayTx, day: string, moved: Sums): Promise<void> {
  const ids = { reference: referenceOf(day), kind: 'archive' };
  const own = await tx
    .selectFrom('gateway_entries')
    .select(['account_id', 'amount'])
    .where('reference', '=', ids.reference)
    .where('kind', '=', ids.kind)
    .execute();
  const before = new Map(own.map(({ account_id, amount }) => [account_id, amount]));
  for (const [account_id, amount] of moved) {
    const sum = (before.get(account_id) ?? 0n) + amount;
    const entry = { ...ids, account_id, amount: sum };
    if (sum === 0n)
      await tx
        .deleteFrom('gateway_entries')
        .where('reference', '=', ids.reference)
        .where('kind', '=', ids.kind)
        .where('account_id', '=', account_id)
        .execute();
    else
      await tx
        .insertInto('gateway_entries')
        .values(entry)
        .onConflict((oc) => oc.columns(['reference', 'kind', 'account_id']).doUpdateSet({ amount: sum }))
        .execute();
  }
  if (moved.size > 0)
    await tx
      .insertInto('gateway_transactions')
      .values({ ...ids, at: `${day}T23:59:59.999Z`, note: null })
      .onConflict((oc) => oc.columns(['reference', 'kind']).doNothing())
      .execute();
}

/**
 * Compares the files of all archived days with the ledger: their digests, and what their requests add up to by key and by
 * account.
 * @returns the days and faults, empty when every file is sound
 */
export async function verifyArchives(
  store: GatewayStore,
  folder: string,
): Promise<{ readonly days: number; readonly requests: number; readonly faults: readonly string[] }> {
  const archives = await store.read((db) =>
    db.selectFrom('gateway_archives').selectAll().orderBy('day').execute(),
  );
  const faults: string[] = [];
  for (const archive of archives) {
    const path = join(folder, archive.file);
    const fault = await fileFault(path, archive.digest);
    if (fault !== undefined) faults.push(`The file ${archive.file} of ${archive.day} ${fault}.`);
    else
      try {
        faults.push(...(await compareDay(store, archive, readArchive(path))));
      } catch (error) {
        faults.push(`The file ${archive.file} of ${archive.day} cannot be read: ${errorMessage(error)}`);
      }
  }
  const requests = archives.reduce((sum, archive) => sum + Number(archive.requests), 0);
  return { days: archives.length, requests, faults };
}

async function compareDay(
  store: GatewayStore,
  { day, file, requests, removed }: ArchiveRow,
  lines: AsyncIterable<ArchivedRequest>,
): Promise<string[]> {
  if (removed < requests)
    return [
      `${requests - removed} of the ${requests} requests of ${day} are not removed from the database yet: archive again.`,
    ];
  const [spent, moved]: [Sums, Sums] = [new Map(), new Map()];
  for await (const { request, entries } of lines) {
    if (request.ended !== 'refused') add(spent, request.key_id, request.charged);
    for (const { account_id, amount } of entries) add(moved, account_id, amount);
  }
  const stored = await store.read(async (db) => ({
    keys: await db
      .selectFrom('gateway_archived')
      .select(['key_id as id', 'spent as amount'])
      .where('day', '=', day)
      .execute(),
    accounts: await db
      .selectFrom('gateway_entries')
      .select(['account_id as id', 'amount'])
      .where('reference', '=', referenceOf(day))
      .where('kind', '=', 'archive')
      .execute(),
  }));
  return [
    ...differences(
      spent,
      stored.keys,
      (id, found, expected) => `In ${file}, key ${id} spent ${found}; the ledger has ${expected}.`,
    ),
    ...differences(
      moved,
      stored.accounts,
      (id, found, expected) =>
        `In ${file}, the entries of account ${id} add up to ${found}; the ledger has ${expected}.`,
    ),
  ];
}

function differences(
  found: Sums,
  stored: readonly { readonly id: string; readonly amount: bigint }[],
  describe: (id: string, found: bigint, expected: bigint) => string,
): string[] {
  const expected: Sums = new Map(stored.map(({ id, amount }) => [id, amount]));
  return [...new Set([...found.keys(), ...expected.keys()])].flatMap((id) => {
    const [one, other] = [found.get(id) ?? 0n, expected.get(id) ?? 0n];
    return one === other ? [] : [describe(id, one, other)];
  });
}
