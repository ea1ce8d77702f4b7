/**
 * Compares the gateway with Portkey's in one run on one machine: `npm ci --prefix bench/gateway`, `npm run build`, then
 * `npm run bench:gateway`. Needs `wrk`. `--memory` also watches memory during 100,000 requests; `--before=FOLDER` also
 * measures another built checkout, alternating with this one.
 */
import { cpus } from 'node:os';
import { mkdirSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { table } from '../table.ts';
import { type Contestant, providerAlone, portkeyVersion, startLathe, startPortkey } from './contestants.ts';
import { chunkDelays, latencies, quantile, residentMib, type Throughput, throughput } from './measures.ts';
import { startMockProvider } from './mock-provider.ts';

const flags = new Set(process.argv.slice(2));
const database = process.argv.find((word) => word.startsWith('--database='))?.slice('--database='.length);
const round = (value: number, places = 2) => Number(value.toFixed(places));

const provider = await startMockProvider();
const aloneFigures = providerAlone(provider.url);
const databaseOption = database === undefined ? {} : { database };
const lathe = await startLathe(provider.url, databaseOption);
const earlierBuild = process.argv.find((word) => word.startsWith('--before='))?.slice('--before='.length);
const earlierContestants =
  earlierBuild === undefined
    ? []
    : [
        await startLathe(provider.url, {
          ...databaseOption,
          checkoutFolder: earlierBuild,
          name: 'lathe before',
        }),
      ];
const portkey = await startPortkey(provider.url);
const all: Contestant[] = [aloneFigures, lathe, ...earlierContestants, ...(portkey ? [portkey] : [])];

const report: Record<string, unknown> = {
  at: new Date().toISOString(),
  node: process.version,
  cpu: `${cpus().length} x ${cpus()[0]?.model}`,
  database: database?.split(':')[0] ?? 'sqlite on disk, synchronous=full',
  portkey: portkey && portkeyVersion(),
};

const rates: Record<string, Record<string, unknown>> = {};
/** Requests/s of each round: the contestants of a round saw about the same machine. */
const rounds: Record<string, Record<string, number[]>> = {};
for (const stream of [false, true]) {
  const kind = stream ? 'streamed' : 'buffered';
  // Warm-up, then five alternating rounds; the median is reported.
  for (const one of all) await throughput(one, stream, 3);
  const figuresOf = new Map<Contestant, Throughput[]>(all.map((one) => [one, []]));
  for (let count = 0; count < 5; count += 1)
    for (const [one, figures] of figuresOf) figures.push(await throughput(one, stream, 3));
  rounds[kind] = Object.fromEntries(
    [...figuresOf].map(([one, figures]) => [
      one.name,
      figures.map(({ requestsPerSecond }) => round(requestsPerSecond, 0)),
    ]),
  );
  rates[kind] = Object.fromEntries(
    [...figuresOf].map(([one, figures]) => {
      const middle = [...figures].sort((a, b) => a.requestsPerSecond - b.requestsPerSecond)[2];
      const failures = figures.reduce((sum, figure) => sum + figure.failures, 0);
      return [
        one.name,
        {
          requestsPerSecond: round(middle?.requestsPerSecond ?? 0, 0),
          ...(one.pid === undefined ? {} : { cpuMsPerRequest: round(middle?.cpuMsPerRequest ?? 0, 3) }),
          p50Ms: round(middle?.p50Ms ?? 0),
          p99Ms: round(middle?.p99Ms ?? 0),
          failures,
        },
      ];
    }),
  );
}
report['throughput, 64 connections'] = rates;
report['requests/s of each round, in turn'] = rounds;

const summary = (times: number[][]) => {
  const [base = []] = times;
  return Object.fromEntries(
    all.map((one, index) => {
      const contestantTimes = times[index] ?? [];
      return [
        one.name,
        {
          p50Ms: round(quantile(contestantTimes, 0.5), 3),
          p99Ms: round(quantile(contestantTimes, 0.99), 3),
          addedP50Ms: round(quantile(contestantTimes, 0.5) - quantile(base, 0.5), 3),
          addedP99Ms: round(quantile(contestantTimes, 0.99) - quantile(base, 0.99), 3),
        },
      ];
    }),
  );
};
report['one request at a time'] = summary(await latencies(all, 1000));
report['delay of a chunk of a stream'] = summary(await chunkDelays(all, 40));

if (flags.has('--memory') && lathe.pid !== undefined) {
  const memory: { requests: number; mib: number }[] = [];
  let requests = 0;
  while (requests < 100_000) {
    const { requestsPerSecond } = await throughput(lathe, false, 5);
    requests += Math.round(requestsPerSecond * 5);
    memory.push({ requests, mib: round(residentMib(lathe.pid), 1) });
  }
  report['memory of lathe'] = memory;
}

for (const [name, figures] of Object.entries(report)) {
  if (typeof figures !== 'object' || figures === null) {
    console.log(`${name}: ${String(figures)}`);
    continue;
  }
  console.log(`\n${name}`);
  if (Array.isArray(figures))
    console.log(
      table(
        Object.keys(figures[0] as object),
        figures.map((row) => Object.values(row as object).map(String)),
      ),
    );
  else console.log(JSON.stringify(figures, null, 2));
}
const folder = fileURLToPath(new URL('../results/', import.meta.url));
if (flags.has('--save')) {
  mkdirSync(folder, { recursive: true });
  writeFileSync(
    `${folder}${new Date().toISOString().slice(0, 10)}-gateway.json`,
    `${JSON.stringify(report, null, 2)}\n`,
  );
}
for (const one of all) await one.close();
await provider.close();
