/**
 * One, two and four gateways on one PostgreSQL: `npm run build`, then `npm run bench:gateway:scale -- [--save]`. Needs `wrk`,
 * PostgreSQL and the right to make control groups: each gateway gets a fixed share of a core, so that the machine carries
 * four of them and a sum that grows shows that they do not wait for each other. The database flushes every commit.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { fileURLToPath } from 'node:url';
import { startPostgres } from '../../test/support/postgres-server.ts';
import { sleep } from '../../src/util/sleep.ts';
import { table } from '../table.ts';
import { type Contestant, startLathe } from './contestants.ts';
import { cpuMs, type Load, load } from './measures.ts';
import { startMockProvider } from './mock-provider.ts';

/** The share of a core that each gateway gets. */
const share = 0.15;
const periodUs = 10_000;
const connections = 32;
const seconds = 10;
const round = (value: number, places = 0) => Number(value.toFixed(places));

/** A control group of this run. Groups of version 1 and 2 have other files. */
const isUnified = cpuController() === '/sys/fs/cgroup';
const groups: string[] = [];
function cpuController(): string {
  try {
    readFileSync('/sys/fs/cgroup/cgroup.controllers');
    return '/sys/fs/cgroup';
  } catch {
    return '/sys/fs/cgroup/cpu';
  }
}
function makeGroup(name: string, quota?: number): string {
  const folder = `${cpuController()}/lathe-scale-${process.pid}-${name}`;
  mkdirSync(folder);
  groups.push(folder);
  if (quota === undefined) return folder;
  // A period of 10 ms: with a longer one the pauses would be most of the latency.
  const quotaUs = round(quota * periodUs);
  if (isUnified) writeFileSync(`${folder}/cpu.max`, `${quotaUs} ${periodUs}`);
  else {
    writeFileSync(`${folder}/cpu.cfs_period_us`, String(periodUs));
    writeFileSync(`${folder}/cpu.cfs_quota_us`, String(quotaUs));
  }
  return folder;
}
/** Starts a program as a member of the group. */
const launcherIn = (folder: string): string[] => [
  '/bin/sh',
  '-c',
  `echo $$ > ${folder}/cgroup.procs && exec "$@"`,
  'sh',
];

/** Processor time of a process and its children, in ms. */
const treeCpuMs = (pid: number): number =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')
    .split(' ')
    .filter((child) => child !== '')
    .reduce((sum, child) => sum + treeCpuMs(Number(child)), cpuMs(pid));

const postgres = await startPostgres(['fsync=on', 'full_page_writes=on', 'shared_buffers=256MB']);
const psql = (database: string, query: string): string =>
  execFileSync('psql', ['-h', postgres.folder, '-U', 'lathe', '-d', database, '-Atc', query], {
    encoding: 'utf8',
  });
const postgresPid = Number(readFileSync(`${postgres.folder}/data/postmaster.pid`, 'utf8').split('\n')[0]);
const provider = await startMockProvider();

interface Figures {
  readonly rate: number;
  readonly loads: readonly Load[];
  readonly gatewayMs: number;
  readonly databaseMs: number;
  readonly commits: number;
  readonly logBytes: number;
}

/** @param accounts whether each gateway's requests are of an account of its own */
async function measure(count: number, accounts: 'one account' | 'own accounts'): Promise<Figures> {
  const name = `scale_${count}_${accounts.slice(0, 3)}`;
  psql('postgres', `create database ${name}`);
  const gateways: Contestant[] = [];
  try {
    for (let index = 0; index < count; index += 1)
      gateways.push(
        await startLathe(provider.url, {
          database: `postgres:///${name}?host=${encodeURIComponent(postgres.folder)}&user=lathe`,
          account: `account-${index}`,
          launcher: launcherIn(makeGroup(`${name}-${index}`, share)),
        }),
      );
    const [first] = gateways;
    const asked = gateways.map((gateway) =>
      accounts === 'one account' && first ? { ...gateway, headers: first.headers } : gateway,
    );
    const loads = async (duration: number) =>
      await Promise.all(asked.map((gateway) => load(gateway, { seconds: duration, connections })));
    await loads(4);
    const reading = () => ({
      gateways: gateways.reduce((sum, { pid }) => sum + (pid === undefined ? 0 : treeCpuMs(pid)), 0),
      database: treeCpuMs(postgresPid),
      commits: Number(psql(name, `select xact_commit from pg_stat_database where datname = '${name}'`)),
      log: Number(psql(name, "select pg_current_wal_lsn() - '0/0'::pg_lsn")),
    });
    const before = reading();
    const figures = await loads(seconds);
    // Commits are counted when a connection reports them, at most once a second.
    await sleep(1500);
    const after = reading();
    const requests = figures.reduce((sum, one) => sum + one.requests, 0);
    return {
      rate: figures.reduce((sum, one) => sum + one.requestsPerSecond, 0),
      loads: figures,
      gatewayMs: (after.gateways - before.gateways) / requests,
      databaseMs: (after.database - before.database) / requests,
      commits: (after.commits - before.commits) / seconds,
      logBytes: (after.log - before.log) / requests,
    };
  } finally {
    for (const gateway of gateways) await gateway.close();
  }
}

try {
  const rows: Record<string, string | number>[] = [];
  for (const [count, accounts] of [
    [1, 'own accounts'],
    [2, 'own accounts'],
    [4, 'own accounts'],
    [4, 'one account'],
  ] as const) {
    const { rate, loads, gatewayMs, databaseMs, commits, logBytes } = await measure(count, accounts);
    rows.push({
      gateways: count,
      accounts,
      'requests/s': round(rate),
      'p50 ms': round(Math.max(...loads.map(({ p50Ms }) => p50Ms)), 1),
      'p99 ms': round(Math.max(...loads.map(({ p99Ms }) => p99Ms)), 1),
      failures: loads.reduce((sum, one) => sum + one.failures, 0),
      'gateway CPU ms/request': round(gatewayMs, 3),
      'PostgreSQL CPU ms/request': round(databaseMs, 3),
      'commits/s': round(commits),
      'log bytes/request': round(logBytes),
    });
    console.log(JSON.stringify(rows.at(-1)));
  }
  console.log(
    table(
      Object.keys(rows[0] ?? {}),
      rows.map((row) => Object.values(row).map(String)),
    ),
  );
  if (process.argv.includes('--save'))
    writeFileSync(
      fileURLToPath(
        new URL(`../results/${new Date().toISOString().slice(0, 10)}-gateway-scale.json`, import.meta.url),
      ),
      `${JSON.stringify({ at: new Date().toISOString(), node: process.version, cpu: `${cpus().length} x ${cpus()[0]?.model}`, database: psql('postgres', 'show server_version').trim(), 'core for each gateway': share, 'connections to each gateway': connections, rows }, null, 2)}\n`,
    );
} finally {
  await provider.close();
  await postgres.stop();
  for (const folder of groups) rmdirSync(folder);
}
