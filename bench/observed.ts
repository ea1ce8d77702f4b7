/**
 * Overhead of observability, as the ratio of times with and without observers: completions of the embedded model,
 * completions over an engine that answers immediately (the work of the planes), and requests at the gateway with a
 * provider that answers immediately. All observers of the host are active: counters, Prometheus, database rows, and the
 * recorder with disarmed racks.
 *
 * Both arms use the same app and database. Observers are switched every few dozen requests, so that machine load,
 * garbage collection and compilation affect both arms. Each round gives a ratio. The report has their median and its 95
 * % interval from order statistics, without assumptions about the distribution.
 *
 *     node bench/observed.ts [--rounds 60] [--only gateway] [--save]
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { type Engine, loadEngine } from '../src/engine/index.ts';
import { ObserveFeed } from '../src/feed/index.ts';
import { openGatewayDatabase } from '../src/gateway/cli/gateway-database.ts';
import { GatewayFile } from '../src/gateway/config/gateway-file.ts';
import { openGateway } from '../src/gateway/open.ts';
import { loopbackAccess } from '../src/planes/access.ts';
import { createApp } from '../src/http/app.ts';
import { createHostPlanes } from '../src/planes/mount.ts';
import { Resident } from '../src/planes/resident.ts';
import { ServedCounters } from '../src/planes/served-counters.ts';
import { Recorder } from '../src/recorder/recorder.ts';
import { Store } from '../src/store/index.ts';
import { Metrics } from '../src/telemetry/metrics.ts';
import { noopTracer, Tracer } from '../src/tracing/index.ts';
import { storeAt } from '../test/support/model-store.ts';
import { ScriptedEngine } from '../test/support/scripted-engine.ts';
import { benchConfig } from './gateway/contestants.ts';
import { startMockProvider } from './gateway/mock-provider.ts';
import { ownCpuMs } from './cpu-load.ts';
import { benchPlatform } from './platform.ts';
import { median, medianInterval } from './statistics.ts';
import { digits, table } from './table.ts';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '60' },
    only: { type: 'string', default: '' },
    save: { type: 'boolean', default: false },
  },
});
const rounds = Number(values.rounds);
const warmups = 5;
/** Order of the arms within a round; it balances linear drift. */
const armOrder = ['alone', 'watched', 'watched', 'alone', 'alone', 'watched', 'watched', 'alone'] as const;

const folder = mkdtempSync(join(tmpdir(), 'lathe-observed-'));
const onFault = (where: string, error: unknown) => console.error(where, error);
const onNotice = (message: string) => console.error(message);
const store = await Store.open({ url: `sqlite:${join(folder, 'lathe.db')}`, endpointId: 'bench' });
const feed = new ObserveFeed({ store, onFault });
const recorder = await Recorder.open({
  folder: join(folder, 'recorder'),
  worker: fileURLToPath(new URL('../src/recorder-worker.ts', import.meta.url)),
  secrets: [],
  onFault: onNotice,
  onNotice,
});
const served = new ServedCounters();
/** A Watch that can be switched between requests. */
class SwitchableWatch extends Tracer {
  current: Tracer = noopTracer;

  override startSpan: Tracer['startSpan'] = (...work) => this.current.startSpan(...work);
}
const all = new Tracer([served, new Metrics(), feed, recorder.sink]);
const watch = new SwitchableWatch();
type Ask = (stream: boolean) => Promise<void>;

/** Requests against the planes of a host with an engine. */
function askCompletions(engine: Engine, tokens: number, expected: RegExp): Ask {
  const resident = new Resident('loading');
  resident.setReady(engine);
  const planes = createHostPlanes({
    resident,
    store: storeAt('/nowhere'),
    served,
    version: 'bench',
    endpointId: 'bench',
  });
  const { signal: stopping } = new AbortController();
  const app = createApp({ planes, access: loopbackAccess, stopSignal: stopping, onFault, watch });
  return (stream) => sendRequest(app, '/v1/chat/completions', { stream, max_tokens: tokens }, {}, expected);
}

type App = { request(url: string, init: RequestInit): Response | Promise<Response> };

async function sendRequest(
  app: App,
  path: string,
  bodyMembers: object,
  headers: Readonly<Record<string, string>>,
  expected: RegExp,
): Promise<void> {
  const body = JSON.stringify({
    messages: [{ role: 'user', content: 'Tell me of the river.' }],
    ...bodyMembers,
  });
  const response = await app.request(`http://localhost${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body,
  });
  const text = await response.text();
  if (!expected.test(text)) throw new Error(`no answer: ${response.status} ${text.slice(0, 200)}`);
}

async function openBenchGateway(provider: string): Promise<{ ask: Ask; close: () => Promise<void> }> {
  const database = `sqlite:${join(folder, 'gateway.db')}`;
  const file = new GatewayFile(benchConfig(provider), { name: '', folder, env: { MOCK_KEY: 'sk-mock' } });
  const config = await file.config();
  const books = await openGatewayDatabase({ database, masterKeys: [], onNotice });
  const account = await books.ledger.createAccount('bench', { credit: 10n ** 15n });
  const { secret } = await books.ledger.createKey({ account: account.id });
  await books.close();
  const gateway = await openGateway({ config, database, tracer: watch, onFault, onNotice });
  const headers = { authorization: `Bearer ${secret}` };
  return {
    ask: (stream) =>
      sendRequest(
        gateway.app,
        '/v1/chat/completions',
        { model: 'mock-1', stream, user: 'fast' },
        headers,
        /Hello|word/,
      ),
    close: () => gateway.close(1000),
  };
}

interface Subject {
  readonly name: string;
  readonly ask: Ask;
  /** Requests per turn. The watched requests of a round produce fewer rows than trigger a write of the feed. */
  readonly requestsPerTurn: number;
  /** `cpu`: processor time of this process; `clock`: wall time, when a GPU works as well. */
  readonly timedBy: 'cpu' | 'clock';
}

async function compareArms({ name, ask, requestsPerTurn, timedBy }: Subject, stream: boolean) {
  const clock = timedBy === 'cpu' ? workCpuMs : () => Promise.resolve(performance.now());
  const times = { alone: [] as number[], watched: [] as number[] };
  for (let round = 0; round < rounds + warmups; round++) {
    const spent = { alone: 0, watched: 0 };
    for (const arm of armOrder) {
      watch.current = arm === 'watched' ? all : noopTracer;
      const before = await clock();
      for (let n = 0; n < requestsPerTurn; n++) await ask(stream);
      spent[arm] += (await clock()) - before;
    }
    const before = await clock();
    await feed.flush();
    spent.watched += (await clock()) - before;
    if (round < warmups) continue;
    const requests = (requestsPerTurn * armOrder.length) / 2;
    times.alone.push((spent.alone * 1000) / requests);
    times.watched.push((spent.watched * 1000) / requests);
  }
  const ratios = times.watched.map((time, round) => time / (times.alone[round] ?? time));
  const [least, most] = medianInterval(ratios);
  const medianUs = (list: number[]) => Math.round(median(list));
  return {
    subject: `${name}, ${stream ? 'streamed' : 'buffered'}`,
    measured: timedBy,
    without_us: medianUs(times.alone),
    watched_us: medianUs(times.watched),
    ratio: Number(median(ratios).toFixed(4)),
    least: Number(least.toFixed(4)),
    most: Number(most.toFixed(4)),
  };
}

const provider = await startMockProvider();
const engine = await loadEngine(benchPlatform(), {
  model: fileURLToPath(new URL('../models/lathe-tiny-q8_0.gguf', import.meta.url)),
  speculation: 'off',
});
const words = Array.from({ length: 64 }, (_, n) => ` word${n}`);
const benchGateway = await openBenchGateway(provider.url);
/** Processor time of this process without the mock provider. */
const workCpuMs = async () => {
  const ms = ownCpuMs();
  return ms - (await provider.cpuMs());
};
const subjects: Subject[] = [
  {
    name: 'embedded model, 32 tokens',
    ask: askCompletions(engine, 32, /./),
    requestsPerTurn: 5,
    timedBy: 'clock',
  },
  {
    name: 'planes alone, 64 tokens',
    ask: askCompletions(new ScriptedEngine({ answer: () => words }), 100, /word0/),
    requestsPerTurn: 40,
    timedBy: 'cpu',
  },
  { name: 'gateway', ask: benchGateway.ask, requestsPerTurn: 40, timedBy: 'cpu' },
];
try {
  const results = [];
  for (const subject of subjects.filter(({ name }) => name.startsWith(values.only)))
    for (const stream of [false, true]) results.push(await compareArms(subject, stream));
  const lines = results.map((one) => [
    one.subject,
    one.measured,
    digits(one.without_us),
    digits(one.watched_us),
    one.ratio.toFixed(3),
    `${one.least.toFixed(3)} to ${one.most.toFixed(3)}`,
  ]);
  console.log(table(['', 'by', 'nobody, us', 'all, us', 'ratio', '95 %'], lines));
  if (values.save) {
    const at = new Date().toISOString();
    const path = fileURLToPath(new URL(`results/${at.slice(0, 10)}-observed.json`, import.meta.url));
    mkdirSync(new URL('results/', import.meta.url), { recursive: true });
    const machine = { node: process.version, cpu: `${cpus().length} x ${cpus()[0]?.model}` };
    writeFileSync(path, `${JSON.stringify({ at, ...machine, rounds, results }, null, 2)}\n`);
  }
} finally {
  await benchGateway.close();
  await engine.close();
  await provider.close();
  await feed.close();
  await recorder.close();
  await store.close();
  rmSync(folder, { recursive: true });
}
