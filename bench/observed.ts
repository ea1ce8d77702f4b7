/**
 * What watching costs, by turns within one process, as ratios of what the same work takes with nobody watching:
 * completions of the embedded model, completions over an engine that answers at once (the planes' own work), and
 * requests at the gateway before a provider that answers at once. The host's observers are all there: counters,
 * Prometheus, rows in the database, the recorder with its racks disarmed.
 *
 *     node bench/observed.ts [--rounds 20] [--save]
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { type Engine, loadEngine } from '../src/engine/index.ts';
import { Feed } from '../src/feed/index.ts';
import { openBooks } from '../src/gateway/cli/open-books.ts';
import { GatewayFile } from '../src/gateway/config/file.ts';
import { openGateway } from '../src/gateway/open.ts';
import { openAccess } from '../src/planes/access.ts';
import { createApp } from '../src/planes/app.ts';
import { hostPlanes } from '../src/planes/mount.ts';
import { Resident } from '../src/planes/resident.ts';
import { Served } from '../src/planes/served.ts';
import { Recorder } from '../src/recorder/open.ts';
import { Store } from '../src/store/index.ts';
import { Metrics } from '../src/telemetry/metrics.ts';
import { unwatched, Watch } from '../src/watch/index.ts';
import { storeAt } from '../test/support/model-store.ts';
import { ScriptedEngine } from '../test/support/scripted-engine.ts';
import { benchConfig } from './gateway/contestants.ts';
import { startMockProvider } from './gateway/mock-provider.ts';
import { ownCpuMs } from './others.ts';
import { benchPlatform } from './platform.ts';
import { median } from './statistics.ts';
import { digits, table } from './table.ts';

const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '20' }, save: { type: 'boolean', default: false } },
});
const rounds = Number(values.rounds);
const warmups = 3;

const folder = mkdtempSync(join(tmpdir(), 'lathe-observed-'));
const onFault = (where: string, error: unknown) => console.error(where, error);
const onNotice = (message: string) => console.error(message);
const store = await Store.open({ url: `sqlite:${join(folder, 'lathe.db')}`, endpointId: 'bench' });
const feed = new Feed({ store, onFault });
const recorder = await Recorder.open({
  folder: join(folder, 'recorder'),
  worker: fileURLToPath(new URL('../src/recorder-worker.ts', import.meta.url)),
  secrets: [],
  onFault: onNotice,
  onNotice,
});
const served = new Served();
const all = new Watch([served, new Metrics(), feed, recorder.sink]);
const watches = { 'nobody watches': unwatched, 'all watch': all };
type Ask = (stream: boolean) => Promise<void>;
const onlyOf = (make: (watch: Watch) => Ask) =>
  Object.entries(watches).map(([name, watch]) => ({ name, ask: make(watch) }));

/** The planes of a host over an engine. */
function completions(engine: Engine, tokens: number, expected: RegExp) {
  const resident = new Resident('loading');
  resident.ready(engine);
  const planes = hostPlanes({
    resident,
    store: storeAt('/nowhere'),
    served,
    version: 'bench',
    endpointId: 'bench',
  });
  const { signal: stopping } = new AbortController();
  return onlyOf((watch) => {
    const app = createApp({ planes, access: openAccess, stopping, onFault, watch });
    return (stream) => asked(app, '/v1/chat/completions', { stream, max_tokens: tokens }, {}, expected);
  });
}

type App = { request(url: string, init: RequestInit): Response | Promise<Response> };

async function asked(
  app: App,
  path: string,
  more: object,
  headers: Readonly<Record<string, string>>,
  expected: RegExp,
): Promise<void> {
  const body = JSON.stringify({ messages: [{ role: 'user', content: 'Tell me of the river.' }], ...more });
  const response = await app.request(`http://localhost${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body,
  });
  const text = await response.text();
  if (!expected.test(text)) throw new Error(`no answer: ${response.status} ${text.slice(0, 200)}`);
}

/** A gateway for each, on books of its own. */
async function gateways(provider: string) {
  const arms: { name: string; ask: Ask; close: () => Promise<void> }[] = [];
  for (const [name, watch] of Object.entries(watches)) {
    const database = `sqlite:${join(folder, `gateway-${arms.length}.db`)}`;
    const file = new GatewayFile(benchConfig(provider), { name: '', folder, env: { MOCK_KEY: 'sk-mock' } });
    const config = await file.config();
    const books = await openBooks({ database, masterKeys: [], onNotice });
    const account = await books.ledger.createAccount('bench', { credit: 10n ** 15n });
    const { secret } = await books.ledger.createKey({ account: account.id });
    await books.close();
    const gateway = await openGateway({ config, database, watch, onFault, onNotice });
    const headers = { authorization: `Bearer ${secret}` };
    const ask: Ask = (stream) =>
      asked(
        gateway.app,
        '/v1/chat/completions',
        { model: 'mock-1', stream, user: 'fast' },
        headers,
        /Hello|word/,
      );
    arms.push({ name, ask, close: () => gateway.close(1000) });
  }
  return arms;
}

interface Subject {
  readonly name: string;
  readonly arms: readonly { readonly name: string; readonly ask: Ask }[];
  /** Asked in a round of each arm: about a second, after which rows are written. */
  readonly each: number;
  /** `cpu`: processor time of this process; the clock where another processor works, too. */
  readonly by: 'cpu' | 'clock';
}

async function compared({ name, arms, each, by }: Subject, stream: boolean) {
  const times = arms.map((): number[] => []);
  const clock = by === 'cpu' ? ownCpuMs : () => performance.now();
  for (let round = 0; round < rounds + warmups; round++) {
    for (let turn = 0; turn < arms.length; turn++) {
      const arm = (turn + round) % arms.length;
      const before = clock();
      for (let n = 0; n < each; n++) await arms[arm]?.ask(stream);
      await feed.flushed();
      if (round >= warmups) times[arm]?.push(((clock() - before) * 1000) / each);
    }
  }
  const [without = [], watched = []] = times;
  const ratio = median(watched.map((time, round) => time / (without[round] ?? time)));
  const us = (list: number[]) => Math.round(median(list));
  return {
    subject: `${name}, ${stream ? 'streamed' : 'buffered'}`,
    measured: by,
    without_us: us(without),
    watched_us: us(watched),
    ratio: Number(ratio.toFixed(4)),
  };
}

const provider = await startMockProvider();
const engine = await loadEngine(benchPlatform(), {
  model: fileURLToPath(new URL('../models/lathe-tiny-q8_0.gguf', import.meta.url)),
  speculation: 'off',
});
const words = Array.from({ length: 64 }, (_, n) => ` word${n}`);
const sold = await gateways(provider.url);
const subjects: Subject[] = [
  { name: 'embedded model, 32 tokens', arms: completions(engine, 32, /./), each: 20, by: 'clock' },
  {
    name: 'planes alone, 64 tokens',
    arms: completions(new ScriptedEngine({ answer: () => words }), 100, /word0/),
    each: 300,
    by: 'cpu',
  },
  { name: 'gateway', arms: sold, each: 300, by: 'cpu' },
];
try {
  const results = [];
  for (const subject of subjects)
    for (const stream of [false, true]) results.push(await compared(subject, stream));
  const lines = results.map(({ subject, measured, without_us: without, watched_us: watched, ratio }) => [
    subject,
    measured,
    digits(without),
    digits(watched),
    ratio.toFixed(3),
  ]);
  console.log(table(['', 'by', 'nobody, us', 'all, us', 'ratio'], lines));
  if (values.save) {
    const at = new Date().toISOString();
    const path = fileURLToPath(new URL(`results/${at.slice(0, 10)}-observed.json`, import.meta.url));
    mkdirSync(new URL('results/', import.meta.url), { recursive: true });
    const machine = { node: process.version, cpu: `${cpus().length} x ${cpus()[0]?.model}` };
    writeFileSync(path, `${JSON.stringify({ at, ...machine, rounds, results }, null, 2)}\n`);
  }
} finally {
  for (const { close } of sold) await close();
  await engine.close();
  await provider.close();
  await feed.close();
  await recorder.close();
  await store.close();
  rmSync(folder, { recursive: true });
}
