import { appendFileSync, existsSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { digestOf, readArchive } from '../../src/gateway/ledger/archive-file.ts';
import { describeStores } from '../support/databases.ts';
import { randomFrom } from '../support/kills/process.ts';
import {
  ending,
  ledgerOn,
  newRequest,
  type OpenLedger,
  payerOf,
  reservation,
  settlement,
} from '../support/ledger.ts';

const dayMs = 24 * 60 * 60 * 1000;
const firstDay = Date.UTC(2026, 0, 1);
const days = 4;
/** More than are removed in one transaction. */
const requestsPerDay = 620;

describeStores('archives of the ledger', (url) => {
  const undo: (() => unknown)[] = [];
  afterAll(async () => {
    for (const step of undo.splice(0).toReversed()) await step();
  });

  /** A ledger with requests of every kind on each of the first days of a year. */
  async function opened() {
    const folder = mkdtempSync(join(tmpdir(), 'lathe-archive-'));
    undo.push(() => rmSync(folder, { recursive: true }));
    let time = firstDay;
    const books = await ledgerOn(await url(), { now: () => new Date(time), beatMs: 1_000_000 });
    undo.push(() => books.close());
    const { ledger } = books;
    const payers = [
      await payerOf(ledger, { credit: 10n ** 9n }),
      await payerOf(ledger, { included: 10n ** 9n }),
    ];
    const random = randomFrom(7);
    for (let day = 0; day < days; day++)
      await Promise.all(
        Array.from({ length: requestsPerDay }, async (_, n) => {
          time = firstDay + day * dayMs + Math.floor((n * dayMs) / requestsPerDay);
          const one = reservation(payers[n % 2]!, BigInt(100 + random(900)), { tag: `user ${n % 3}` });
          await ledger.reserve(one);
          // Some are returned, and some cost more than was held.
          if (random(10) === 0) await ledger.release(one.requestId, ending());
          else await ledger.settle(one.requestId, settlement(BigInt(random(1100))));
          if (n % 50 === 0)
            ledger.recordRefusal(
              reservation(payers[0]!, 1n, { requestId: newRequest() }),
              ending({ status: 402 }),
            );
        }),
      );
    time = firstDay + days * dayMs + 1;
    // A refusal is recorded in the background.
    await ledger.settle(await held(books, payers[0]!), settlement(1n));
    const sums = async () => ({
      balances: await Promise.all(payers.map(({ accountId }) => ledger.balance(accountId))),
      spent: (await ledger.keys()).map(({ id, spent }) => [id, spent]),
      usage: await ledger.usage({ by: ['day', 'key', 'tag'], since: '2026-01-01', until: '2026-01-31' }),
    });
    const audited = async () => (await ledger.audit()).faults;
    expect(await audited()).toEqual([]);
    return { ...books, folder, payers, sums, audited };
  }

  async function held({ ledger }: OpenLedger, payer: { accountId: string; keyId: string }): Promise<string> {
    const one = reservation(payer, 10n);
    await ledger.reserve(one);
    return one.requestId;
  }

  const rowsOf = ({ store }: OpenLedger) =>
    store.read(async (db) => ({
      requests: (await db.selectFrom('gateway_requests').selectAll().execute()).map(
        ({ ended_at }) => ended_at,
      ),
      settled: (await db.selectFrom('gateway_entries').selectAll().where('kind', '=', 'settle').execute())
        .length,
      transactions: (await db.selectFrom('gateway_transactions').selectAll().execute()).map(
        ({ kind }) => kind,
      ),
    }));

  async function archivedIds(folder: string): Promise<string[]> {
    const ids: string[] = [];
    for (const file of readdirSync(folder).toSorted())
      for await (const { request } of readArchive(join(folder, file))) ids.push(request.id);
    return ids;
  }

  describe('of all days but the last ones', () => {
    let books: Awaited<ReturnType<typeof opened>>;
    let before: Awaited<ReturnType<typeof books.sums>>;
    let requests: number;
    beforeAll(async () => {
      books = await opened();
      before = await books.sums();
      requests = (await rowsOf(books)).requests.length;
      await books.ledger.archive({ before: '2026-01-03', folder: books.folder });
    });

    it('are files that only their owner reads, with every request once', async () => {
      const { folder } = books;
      expect(readdirSync(folder).toSorted()).toEqual([
        'archive-2026-01-01.jsonl.gz',
        'archive-2026-01-02.jsonl.gz',
      ]);
      for (const file of readdirSync(folder)) expect(statSync(join(folder, file)).mode & 0o777).toBe(0o600);
      const ids = await archivedIds(folder);
      expect(new Set(ids).size).toBe(ids.length);
      expect(ids.length + (await rowsOf(books)).requests.length).toBe(requests);
    });

    it('leave the later requests, and of the earlier ones a transaction a day', async () => {
      const rows = await rowsOf(books);
      expect(rows.requests.every((at) => at >= '2026-01-03')).toBe(true);
      expect(rows.transactions.filter((kind) => kind === 'archive')).toHaveLength(2);
      expect(rows.settled).toBeLessThanOrEqual(3 * rows.requests.length);
    });

    it('change no balance, no spending and no report, and agree with the ledger', async () => {
      expect(await books.sums()).toEqual(before);
      expect(await books.audited()).toEqual([]);
      expect(await books.ledger.verifyArchives(books.folder)).toMatchObject({ days: 2, faults: [] });
    });

    it('do not disturb later requests', async () => {
      await books.ledger.settle(await held(books, books.payers[1]!), settlement(5n));
      expect(await books.audited()).toEqual([]);
      expect(await books.ledger.archive({ before: '2026-01-03', folder: books.folder })).toEqual([]);
    });

    it('are found to be changed, or gone', async () => {
      const [first = '', second = ''] = readdirSync(books.folder).toSorted();
      appendFileSync(join(books.folder, first), ' ');
      rmSync(join(books.folder, second));
      const { faults } = await books.ledger.verifyArchives(books.folder);
      expect(faults).toEqual([
        expect.stringMatching(/2026-01-01 has the SHA-256 [0-9a-f]{64}, not [0-9a-f]{64}/),
        expect.stringMatching(/2026-01-02 is missing/),
      ]);
    });

    it('are found by an audit when their sums are changed', async () => {
      await books.store.transaction((tx) =>
        tx
          .updateTable('gateway_archived')
          .set((eb) => ({ spent: eb('spent', '+', 1n) }))
          .execute(),
      );
      expect(await books.audited()).toEqual(
        expect.arrayContaining([
          expect.stringMatching(/archived requests/),
          expect.stringMatching(/archived entries/),
          expect.stringMatching(/has spent/),
        ]),
      );
    });
  });

  it('are continued after an interruption at any place', async () => {
    const books = await opened();
    const { ledger, store, folder } = books;
    const before = await books.sums();
    const { requests } = await rowsOf(books);
    const transaction = store.transaction.bind(store);
    const archive = () => ledger.archive({ before: '2026-01-04', folder });
    let interruptions = 0;
    for (let successes = 0; ; successes++) {
      let left = 1 + (successes % 3);
      store.transaction = (work) =>
        left-- > 0 ? transaction(work) : Promise.reject(new Error('interrupted'));
      const done = await archive().then(
        () => true,
        () => false,
      );
      store.transaction = transaction;
      expect(await books.audited()).toEqual([]);
      expect(await books.sums()).toEqual(before);
      if (done) break;
      interruptions += 1;
    }
    expect(interruptions).toBeGreaterThan(3);
    const ids = await archivedIds(folder);
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids.length + (await rowsOf(books)).requests.length).toBe(requests.length);
    expect(await ledger.verifyArchives(folder)).toMatchObject({ days: 3, faults: [] });
  });

  it('are not continued without the file of the day', async () => {
    const books = await opened();
    const { ledger, store, folder } = books;
    const transaction = store.transaction.bind(store);
    let left = 2;
    store.transaction = (work) => (left-- > 0 ? transaction(work) : Promise.reject(new Error('interrupted')));
    await expect(ledger.archive({ before: '2026-01-03', folder })).rejects.toThrow('interrupted');
    store.transaction = transaction;
    const other = mkdtempSync(join(tmpdir(), 'lathe-archive-'));
    undo.push(() => rmSync(other, { recursive: true }));
    await expect(ledger.archive({ before: '2026-01-03', folder: other })).rejects.toMatchObject({
      code: 'archive_missing',
      message: expect.stringContaining('that file is missing'),
    });
    expect((await ledger.verifyArchives(folder)).faults).toEqual([expect.stringContaining('archive again')]);
    expect(await books.audited()).toEqual([]);
  });

  it('do not replace the files of another database with the same folder', async () => {
    const [one, other] = [await opened(), await opened()];
    await one.ledger.archive({ before: '2026-01-02', folder: one.folder });
    const before = await other.sums();
    await expect(other.ledger.archive({ before: '2026-01-02', folder: one.folder })).rejects.toMatchObject({
      code: 'archive_exists',
    });
    expect((await one.ledger.verifyArchives(one.folder)).faults).toEqual([]);
    expect([await other.sums(), await other.audited()]).toEqual([before, []]);
    expect(readdirSync(one.folder)).toEqual(['archive-2026-01-01.jsonl.gz']);
  });

  it.each(['the same folder', 'folders of their own'])(
    'have every request when two commands run at the same time, with %s',
    async (folders) => {
      const books = await opened();
      const before = await books.sums();
      const requests = (await rowsOf(books)).requests.length;
      const own = mkdtempSync(join(tmpdir(), 'lathe-archive-'));
      undo.push(() => rmSync(own, { recursive: true }));
      const both = [books.folder, folders === 'the same folder' ? books.folder : own];
      const archive = (folder: string) =>
        books.ledger.archive({ before: '2026-01-04', folder }).catch((error: unknown) => {
          expect(error).toMatchObject({ code: expect.stringMatching(/^archive_(?:exists|missing)$/) });
        });
      await Promise.all(both.map(archive));
      // The days that each of them began.
      for (const folder of both) await archive(folder);
      expect([await books.sums(), await books.audited()]).toEqual([before, []]);
      const left = (await rowsOf(books)).requests.length;
      const recorded = await books.store.read((db) =>
        db.selectFrom('gateway_archives').selectAll().execute(),
      );
      const ids = new Set<string>();
      for (const { file, digest } of recorded)
        for (const path of new Set(both.map((folder) => join(folder, file))))
          if (existsSync(path) && (await digestOf(path)) === digest)
            for await (const { request } of readArchive(path)) ids.add(request.id);
      expect(ids.size + left).toBe(requests);
    },
  );

  it('are not made of days that may not have ended everywhere', async () => {
    const { ledger, folder } = await opened();
    await expect(ledger.archive({ before: '2026-01-05', folder })).rejects.toMatchObject({
      code: 'invalid',
      message: 'The requests of 2026-01-04 and later stay: archive those before it, not before 2026-01-05.',
    });
    expect(readdirSync(folder)).toEqual([]);
  });
});
