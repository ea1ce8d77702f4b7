/**
 * Throughput and latency of the gateway's ledger: pairs of reserve and settle, durable on disk, on SQLite and
 * PostgreSQL.
 *
 *     node bench/gateway-ledger.ts [--seconds 4] [--accounts 16]
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { parseArgs } from 'node:util';
import { openLedger } from '../src/gateway/ledger/index.ts';
import { GatewayStore } from '../src/gateway/store/index.ts';
import type { Ledger, Reservation, Settlement } from '../src/gateway/ledger/types.ts';
import { digits, table } from './table.ts';
import { postgresPrograms, startPostgres } from '../test/support/postgres-server.ts';

const { values } = parseArgs({
  options: { seconds: { type: 'string', default: '4' }, accounts: { type: 'string', default: '16' } },
});
const seconds = Number(values.seconds);

interface Payer {
  readonly accountId: string;
  readonly keyId: string;
}

const reservation = (payer: Payer, requestId: string): Reservation => ({
  ...payer,
  requestId,
  amount: 5_000_000n,
  estimate: 1_000n,
  requestedModel: 'auto',
  effectiveModel: 'a-model-of-some-provider',
  provider: 'some-provider',
  wire: 'chat',
  stream: true,
  byok: false,
});

const settlement: Settlement = {
  cost: { total: 1200n, components: { fresh: 300n, cache_write: 0n, cache_read: 100n, output: 800n } },
  usage: { fresh: 100, cacheWrite: 0, cacheWrite1h: 0, cacheRead: 1000, output: 80 },
  effectiveModel: 'a-model-of-some-provider',
  provider: 'some-provider',
  reason: 'as_requested',
  endpoint: 'credits',
  status: 200,
  outcome: 'completed',
  pricingIdentity: `sha256:${'0'.repeat(64)}`,
  totalMs: 812.5,
  firstByteMs: 120.25,
};

async function createPayers(ledger: Ledger): Promise<Payer[]> {
  const created: Payer[] = [];
  for (let index = 0; index < Number(values.accounts); index++) {
    const { id } = await ledger.createAccount(`account ${index}`, { credit: 10n ** 15n });
    const { row } = await ledger.createKey({ account: id, cap: 10n ** 15n });
    created.push({ accountId: id, keyId: row.id });
  }
  return created;
}

/** @returns duration of each pair in ms */
async function runPairs(ledger: Ledger, inFlight: number): Promise<number[]> {
  const [...all] = await ledger.keys();
  const endsAt = performance.now() + seconds * 1000;
  const durations: number[] = [];
  await Promise.all(
    Array.from({ length: inFlight }, async (_, workerIndex) => {
      const key = all[workerIndex % all.length];
      if (!key) throw new Error('no keys');
      const payer = { accountId: key.accountId, keyId: key.id };
      while (performance.now() < endsAt) {
        const startedAt = performance.now();
        const requestId = `req_${crypto.randomUUID().replaceAll('-', '')}`;
        await ledger.reserve(reservation(payer, requestId));
        await ledger.settle(requestId, settlement);
        durations.push(performance.now() - startedAt);
      }
    }),
  );
  return durations;
}

async function measure(database: string, url: string): Promise<string[][]> {
  const store = await GatewayStore.open({ url, replicaId: crypto.randomUUID() });
  const ledger = await openLedger({ store });
  await createPayers(ledger);
  const rows: string[][] = [];
  for (const inFlight of [1, 8, 64, 256]) {
    const delay = monitorEventLoopDelay({ resolution: 1 });
    delay.enable();
    const startedAt = performance.now();
    const durations = (await runPairs(ledger, inFlight)).sort((a, b) => a - b);
    const elapsedSeconds = (performance.now() - startedAt) / 1000;
    delay.disable();
    const percentileMs = (share: number) => digits(durations[Math.floor(durations.length * share)] ?? NaN);
    rows.push([
      database,
      String(inFlight),
      digits(durations.length / elapsedSeconds),
      percentileMs(0.5),
      percentileMs(0.99),
      digits(delay.percentile(99) / 1e6),
    ]);
  }
  const { ok, faults } = await ledger.audit();
  if (!ok) throw new Error(faults.slice(0, 10).join('\n'));
  await ledger.close();
  await store.close();
  return rows;
}

const folder = mkdtempSync(join(tmpdir(), 'lathe-ledger-'));
const rows = await measure('SQLite', `sqlite:${join(folder, 'gateway.db')}`);
rmSync(folder, { recursive: true });
if (postgresPrograms() !== undefined) {
  const server = await startPostgres(['fsync=on', 'full_page_writes=on', 'shared_buffers=256MB']);
  try {
    rows.push(...(await measure('PostgreSQL', `postgres:///postgres?host=${server.folder}&user=lathe`)));
  } finally {
    await server.stop();
  }
}
const head = ['database', 'in flight', 'pairs/s', 'pair p50 ms', 'p99 ms', 'loop delay p99 ms'];
process.stdout.write(`${table(head, rows)}\n`);
