/**
 * The feed of events and a webhook while the host is killed and connections break at random: nothing is lost, the feed repeats
 * nothing, and both equal what the tables say. `LATHE_TEST_KILLS` sets the number of kills.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { Lathe, LatheError, type AgentEvent } from '../../src/client/index.ts';
import { seededRandom } from '../../src/util/random.ts';
import { freshDataDir, type HostProcess, startSource } from '../support/host.ts';
import { scriptedOpenAi } from '../support/scripted-openai.ts';
import { until } from '../support/until.ts';
import { orderFaults, webhookReceiver } from '../support/webhook-receiver.ts';

const kills = Number(process.env['LATHE_TEST_KILLS'] ?? 2);
const seed = Number(process.env['LATHE_TEST_SEED'] ?? Date.now() % 1_000_000);
const secret = `whsec_${Buffer.alloc(32, 9).toString('base64')}`;
const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

/** A real EventSource, in a process of its own: prints the data of each event. */
const eventSource = (url: string) => {
  const program = `const source = new EventSource(process.argv[1]);
    source.onmessage = ({ data, lastEventId }) => {
      if (JSON.parse(data).id !== Number(lastEventId)) throw new Error('another id');
      console.log(data);
    };
    setInterval(() => {}, 1000);`;
  const child = spawn(process.execPath, ['--experimental-eventsource', '--no-warnings', '-e', program, url], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
  closers.push(async () => {
    child.kill();
    await once(child, 'exit');
  });
  return () =>
    text
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line) as AgentEvent);
};

it(`${kills} kills`, { timeout: 90_000 + kills * 20_000 }, async () => {
  const random = seededRandom(seed);
  const folder = mkdtempSync(join(tmpdir(), 'lathe-events-'));
  const gateway = await scriptedOpenAi(({ body: { messages } }) => {
    const at = messages.findLastIndex(({ role }) => role === 'user');
    const turns = messages.slice(at).filter(({ role }) => role === 'assistant').length;
    const path = `${/write (\S+)/.exec(messages[at]?.content ?? '')?.[1]}.txt`;
    return turns === 0
      ? { calls: [{ name: 'fs_write', arguments: { intent: 'x', path, content: 'a secret of the file' } }] }
      : { text: 'Done.' };
  });
  closers.push(() => gateway.close());
  const receiver = await webhookReceiver(secret, () => (random() < 0.1 ? 500 : 200));
  closers.push(() => receiver.close());
  const config = join(mkdtempSync(join(tmpdir(), 'lathe-events-')), 'lathe.toml');
  writeFileSync(
    config,
    `[gateway]\nurl = "${gateway.url}"\n[[agent.webhooks]]\nurl = "${receiver.url}/hook"\nsecret_env = "HOOK"\n`,
  );
  const dataDir = freshDataDir();
  let host: HostProcess;
  const hosts: HostProcess[] = [];
  let port = '0';
  const start = async () => {
    host = startSource(['--config', config, '--data-dir', dataDir, '--port', port], { HOOK: secret });
    hosts.push(host);
    port = new URL(await host.url()).port;
  };
  await start();
  closers.push(() => host.end());
  const url = `http://127.0.0.1:${port}`;

  /** Breaks connections of the feed in the middle of a chunk. */
  const breaking: typeof fetch = async (input, init) => {
    const response = await fetch(input, init);
    if (!new Request(input, init).url.includes('/events')) return response;
    let left = 200 + random() * 4000;
    const breaker = new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        left -= chunk.byteLength;
        if (left > 0) controller.enqueue(chunk);
        else {
          controller.enqueue(chunk.subarray(0, Math.floor(random() * chunk.byteLength)));
          controller.error(new Error('broken'));
        }
      },
    });
    return new Response(response.body?.pipeThrough(breaker), response);
  };
  const lathe = new Lathe({ url });
  const grants = { tools: ['fs_*'], read: [], write: [folder], network: [], auto_approve: [] };
  await lathe.agents.put({ name: 'worker', instructions: 'W.', model: 'm', grants });
  const stop = new AbortController();
  const received: AgentEvent[] = [];
  const follow = async (client: Lathe, into: AgentEvent[], types?: readonly string[]) => {
    try {
      const options = { after: 0, signal: stop.signal, ...(types ? { types } : {}) };
      for await (const event of client.events(options)) into.push(event);
    } catch (error) {
      if (!stop.signal.aborted) throw error;
    }
  };
  const followers = [follow(new Lathe({ url, fetch: breaking }), received)];
  const changes: AgentEvent[] = [];
  followers.push(follow(lathe, changes, ['pending']));
  const fromBrowser = eventSource(`${url}/agent/v1/events?after=0`);

  const insist = async <T>(what: () => Promise<T>): Promise<T> => {
    for (;;) {
      try {
        return await what();
      } catch (error) {
        if (!(error instanceof LatheError) || !(error.isTransient || error.code === 'being_applied'))
          throw error;
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    }
  };
  let isDone = false;
  let isDecided = false;
  // A person who learns from the feed alone what waits.
  const decided = new Set<string>();
  const deciding = (async () => {
    while (!isDecided) {
      for (const { type, data } of changes)
        if (type === 'pending.staged' && !decided.has(data.id)) {
          decided.add(data.id);
          await insist(() =>
            random() < 0.3 ? lathe.pending.discard(data.id) : lathe.pending.approve(data.id),
          ).catch((error: unknown) => {
            if (!(error instanceof LatheError && error.status === 409)) throw error;
          });
        }
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  })();
  const working = Promise.all(
    [0, 1, 2].map(async (which) => {
      for (let round = 0; !isDone; round++) {
        const request = {
          agent: 'worker',
          cwd: folder,
          prompt: `write f${which}-${round}`,
          approvals: 'wait',
        } as const;
        const task = await insist(() => lathe.tasks.start(request, { idempotencyKey: `k${which}-${round}` }));
        for await (const _ of task);
      }
    }),
  );
  for (let kill = 0; kill < kills; kill++) {
    await new Promise((resolve) => setTimeout(resolve, 300 + random() * 2500));
    host!.kill('SIGKILL');
    await host!.exit;
    await start();
  }
  await until(() => received.length > 30);
  isDone = true;
  await working;
  isDecided = true;
  await deciding;

  const database = new DatabaseSync(join(dataDir, 'lathe.db'), { readOnly: true });
  closers.push(() => database.close());
  const rows = (sql: string) => database.prepare(sql).all() as Record<string, string | number>[];
  const stored = rows(
    "select seq, name from signals where name like 'task.%' or name like 'pending.%' order by seq",
  );
  const ids = stored.map(({ seq }) => seq);
  await until(() => received.at(-1)?.id === ids.at(-1) && fromBrowser().at(-1)?.id === ids.at(-1));
  // Every event once and in order, for the client, the EventSource and the filtered client.
  expect(
    received.map(({ id }) => id),
    `seed ${seed}`,
  ).toEqual(ids);
  expect(fromBrowser()).toEqual(received);
  await until(() => changes.at(-1)?.id === received.findLast(({ type }) => type.startsWith('pending'))?.id);
  expect(changes).toEqual(received.filter(({ type }) => type.startsWith('pending')));
  // The feed equals the tables.
  const of = (type: string) => received.filter((event) => event.type === type).map(({ data }) => data.id);
  const tasks = rows('select id, state from tasks order by n');
  expect(of('task.started')).toEqual(tasks.map(({ id }) => id));
  for (const { id, state } of tasks)
    expect(received.findLast(({ type, data }) => data.id === id && type !== 'task.waiting')?.data.state).toBe(
      state,
    );
  const waits = rows('select stream, event from events where event like \'{"type":"waiting"%\'');
  expect(of('task.waiting').toSorted()).toEqual(waits.map(({ stream }) => String(stream)).toSorted());
  for (const { id, state } of rows('select id, state from pending order by n'))
    expect(received.filter(({ data }) => data.id === id).map(({ data }) => data.state)).toEqual([
      'staged',
      state,
    ]);
  expect(JSON.stringify(received)).not.toContain('a secret of the file');
  // The webhook got all of it, signed and in order.
  const accepted = () => new Set(receiver.accepted().map(({ event }) => event.id));
  await until(() => accepted().size === ids.length);
  expect([...accepted()].toSorted((a, b) => a - b)).toEqual(ids);
  expect(receiver.faults).toEqual([]);
  expect(orderFaults(receiver.accepted())).toEqual([]);
  const state = await (await fetch(`${url}/agent/v1/webhooks`)).json();
  expect(state).toMatchObject({ webhooks: [{ url: `${receiver.url}/hook`, state: 'active', given_up: 0 }] });
  const told = JSON.stringify([hosts.map(({ output }) => output), state]);
  for (const text of [secret, secret.slice(6)]) expect(told).not.toContain(text);
});
