/**
 * What watching costs a completion: the planes' own work for an answer, from the request to its last byte, over an
 * engine that answers at once. With nobody who watches, with the counters of the host, with rows in its database
 * (SQLite), and with the texts kept, too. By turns, within one process.
 *
 *     node bench/observed.ts [--rounds 40] [--tokens 64]
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Feed } from '../src/feed/index.ts';
import { openAccess } from '../src/planes/access.ts';
import { createApp } from '../src/planes/app.ts';
import { hostPlanes } from '../src/planes/mount.ts';
import { Resident } from '../src/planes/resident.ts';
import { Served } from '../src/planes/served.ts';
import { Store } from '../src/store/index.ts';
import { type Sink, Watch } from '../src/watch/index.ts';
import { storeAt } from '../test/support/model-store.ts';
import { ScriptedEngine } from '../test/support/scripted-engine.ts';
import { ownCpuMs } from './others.ts';
import { median } from './statistics.ts';
import { digits, table } from './table.ts';

const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '40' }, tokens: { type: 'string', default: '64' } },
});
const rounds = Number(values.rounds);
/** Completions of an arm in a round. */
const each = 100;

const folder = mkdtempSync(join(tmpdir(), 'lathe-observed-'));
const store = await Store.open({ url: `sqlite:${join(folder, 'lathe.db')}`, endpointId: 'bench' });
const feed = new Feed({ store, onFault: (where, error) => console.error(where, error) });

const words = Array.from({ length: Number(values.tokens) }, (_, n) => ` word${n}`);
const resident = new Resident('loading');
resident.ready(new ScriptedEngine({ answer: () => words }));
const served = new Served();
const planes = hostPlanes({
  resident,
  store: storeAt('/nowhere'),
  served,
  version: 'bench',
  endpointId: 'bench',
});
const listeners: Readonly<Record<string, readonly Sink[]>> = {
  'nobody watches': [],
  counters: [served],
  'counters, rows': [served, feed],
  'counters, rows, texts': [served, feed, { keepsTexts: () => true }],
};
const arms = Object.entries(listeners).map(([name, sinks]) => ({
  name,
  app: createApp({
    planes,
    access: openAccess,
    stopping: new AbortController().signal,
    onFault: (_, error) => console.error(error),
    watch: new Watch(sinks),
  }),
}));

async function complete(app: (typeof arms)[number]['app'], stream: boolean): Promise<void> {
  const body = JSON.stringify({ messages: [{ role: 'user', content: 'hello' }], stream });
  const response = await app.request('http://localhost/v1/chat/completions', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body,
  });
  if (!(await response.text()).includes('word0')) throw new Error(`no answer: ${response.status}`);
}

/** Processor time of a completion in microseconds, with the writing of its row. */
async function measured(app: (typeof arms)[number]['app'], stream: boolean): Promise<number> {
  const before = ownCpuMs();
  for (let n = 0; n < each; n++) await complete(app, stream);
  await feed.flushed();
  return ((ownCpuMs() - before) * 1000) / each;
}

try {
  for (const stream of [false, true]) {
    const times = arms.map((): number[] => []);
    for (let round = 0; round < rounds + 5; round++) {
      for (let turn = 0; turn < arms.length; turn++) {
        const arm = (turn + round) % arms.length;
        const time = await measured(arms[arm]!.app, stream);
        // The first ones warm up.
        if (round >= 5) times[arm]?.push(time);
      }
    }
    const [base = []] = times;
    const lines = arms.map(({ name }, arm) => {
      const ours = times[arm] ?? [];
      const ratios = ours.map((time, round) => time / (base[round] ?? time));
      const more = ours.map((time, round) => time - (base[round] ?? time));
      return [name, digits(median(ours)), digits(median(more)), digits(median(ratios))];
    });
    console.log(
      `\n${stream ? 'streamed' : 'buffered'}, ${words.length} tokens, ${rounds} rounds of ${each}\n`,
    );
    console.log(table(['', 'us', 'more', 'ratio'], lines));
  }
} finally {
  await feed.close();
  await store.close();
  rmSync(folder, { recursive: true });
}
