/**
 * Latency of GET /agent/v1/sessions over HTTP, from a separate process, with 10,000 and 100,000 rows in the journal.
 * Runs on SQLite and, if a URL is given, on an empty PostgreSQL database:
 *
 *     node bench/feed.ts [postgres://USER@HOST/DATABASE]
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Store } from '../src/store/index.ts';
import { freshDataDir, startSource } from '../test/support/host.ts';
import { seedJournal } from '../test/support/journal.ts';
import { median } from './statistics.ts';
import { table } from './table.ts';

const sizes = [10_000, 100_000];
const limits = [50, 200, 1000, 10_000];
const rounds = 40;

async function measure(kind: string, dataDir: string, database: string): Promise<string[][]> {
  const host = startSource(['--port', '0', '--data-dir', dataDir, '--database', database]);
  const lines: string[][] = [];
  try {
    const url = await host.url();
    const endpointId = readFileSync(join(dataDir, 'endpoint-id'), 'utf8').trim();
    let rows = 0;
    for (const size of sizes) {
      const store = await Store.open({ url: database, endpointId });
      await seedJournal(store, size - rows, rows);
      rows = size;
      await store.close();
      for (const limit of limits)
        lines.push([kind, String(size), String(limit), ...(await timeRequests(url, limit))]);
    }
  } finally {
    await host.end();
  }
  return lines;
}

/** Median and maximum time to the last byte, in ms. */
async function timeRequests(url: string, limit: number): Promise<string[]> {
  const times: number[] = [];
  // The keep-alive connection may have expired while rows were written.
  await fetch(url).catch(() => undefined);
  for (let round = 0; round < rounds + 5; round++) {
    const startedAt = performance.now();
    const response = await fetch(`${url}/agent/v1/sessions?limit=${limit}`);
    const text = await response.text();
    if (!response.ok) throw new Error(`the feed answered ${response.status}: ${text.slice(0, 200)}`);
    // The first requests warm up the host.
    if (round >= 5) times.push(performance.now() - startedAt);
  }
  return [median(times).toFixed(1), Math.max(...times).toFixed(1)];
}

const dataDir = freshDataDir();
const lines = await measure('SQLite', dataDir, `sqlite:${join(dataDir, 'lathe.db')}`);
const [, , postgres] = process.argv;
if (postgres !== undefined) lines.push(...(await measure('PostgreSQL', freshDataDir(), postgres)));
process.stdout.write(
  `${table(['database', 'rows in the journal', 'limit', 'median ms', 'worst ms'], lines)}\n`,
);
