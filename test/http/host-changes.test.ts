import { existsSync, mkdtempSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { ChangeBus } from '../../src/changes/change-bus.ts';
import { topics } from '../../src/changes/topics.ts';
import { createApp } from '../../src/http/app.ts';
import { BrowserSessions } from '../../src/http/browser-sessions.ts';
import { hostEnvelope } from '../../src/http/error.ts';
import { Access, type AccessOptions } from '../../src/planes/access.ts';
import { hostError } from '../../src/planes/error-schema.ts';
import { changesRoute } from '../../src/planes/host/changes.ts';
import { generateSecret, hashSecret } from '../../src/signing/secret.ts';
import { ChangeStream } from '../support/change-stream.ts';
import { type ContractHost, startContractHost } from '../support/contract-host.ts';
import { freshDataDir, startScriptedHost } from '../support/host.ts';
import { freePort } from '../support/local-server.ts';
import { serveScripted } from '../support/serve.ts';
import { until } from '../support/until.ts';
import { workflow } from '../support/workflows.ts';

// What changes on a host, as in `GET /host/v1/events`, for real changes of every topic.

const folder = realpathSync(mkdtempSync(join(tmpdir(), 'lathe-changes-')));
const says = {
  write: [
    {
      calls: [
        { name: 'fs_write', arguments: { intent: 'because', path: join(folder, 'a.txt'), content: 'a' } },
      ],
    },
    { text: 'It is staged.' },
  ],
};
const writer = {
  name: 'writer',
  instructions: 'Write.',
  model: 'scripted/one',
  grants: { tools: ['fs_*'], read: [folder], write: [folder] },
};
const kernel = {
  name: 'fast',
  op: 'rms_norm',
  source: '@compute @workgroup_size(64) fn main() {}',
  dispatch: { x: 'tokens' },
};

let at: ContractHost;
const streams: ChangeStream[] = [];
beforeAll(async () => {
  at = await startContractHost({ says, script: { lab: true }, flags: ['--enable-workflow', 'one'] });
});
afterAll(() => at?.end());
afterEach(() => {
  for (const stream of streams.splice(0)) stream.close();
});
const follow = async (options: Parameters<typeof ChangeStream.open>[1] = {}, url = at.url) => {
  const stream = await ChangeStream.open(url, options);
  streams.push(stream);
  return stream;
};
const json = { 'content-type': 'application/json' };
const send = async (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) => {
  const response = await fetch(at.url + path, {
    method,
    headers: { ...json, ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  expect([method, path, response.status < 300, response.status < 300 ? '' : text]).toEqual([
    method,
    path,
    true,
    '',
  ]);
  return text;
};
/** Does something, and waits for the changes that it causes. */
async function expectChanges(
  stream: ChangeStream,
  work: () => Promise<unknown>,
  expected: readonly string[],
) {
  const from = stream.changes.length;
  await work();
  await stream.until(() => expected.every((change) => stream.changes.slice(from).includes(change)));
  for (const change of expected) seen.add(change.split(' ', 1)[0] ?? '');
}
const seen = new Set<string>();
/** Waits for changes since the stream began. A receipt has its own id. */
async function expectSeen(stream: ChangeStream, expected: readonly string[]) {
  const isHere = (change: string) =>
    stream.changes.some((one) => one === change || (!change.includes(' ') && one.startsWith(`${change} `)));
  await stream.until(() => expected.every(isHere));
  for (const change of expected) seen.add(change.split(' ', 1)[0] ?? '');
}

describe('the stream of changes', () => {
  it('says where a model was loaded, after the stream began', async () => {
    const port = await freePort();
    const loadUntil = join(freshDataDir(), 'loaded');
    const dataDir = freshDataDir();
    const host = startScriptedHost(['--gpu', '--port', String(port), '--data-dir', dataDir], {
      lab: true,
      loadUntil,
    });
    const url = `http://127.0.0.1:${port}`;
    try {
      const answers = () =>
        fetch(`${url}/health`).then(
          ({ status }) => status === 503,
          () => false,
        );
      await until(answers);
      const authorization = `Bearer ${readFileSync(join(dataDir, 'bearer.token'), 'utf8').trim()}`;
      const stream = await follow({ headers: { authorization } }, url);
      expect(stream.frames[0]).toMatchObject({ event: 'hello', data: { resumed: false, topics } });
      await expectChanges(stream, async () => writeFileSync(loadUntil, ''), [
        'host',
        'models',
        'kernels',
        'bindings',
      ]);
    } finally {
      await host.end();
    }
  });

  it('has agents, tasks, pending changes and what is decided on them, with their ids', async () => {
    const stream = await follow({ headers: at.bearer });
    await expectChanges(stream, () => send('POST', '/agent/v1/agents', writer), ['agents writer', 'acts']);
    const lines = await send('POST', '/agent/v1/tasks', { prompt: '#write', agent: 'writer' });
    const [, task = ''] = /"task_id":"(t\d+)"/.exec(lines) ?? [];
    await expectSeen(stream, [`tasks ${task}`, 'pending p1', 'receipts']);
    await expectChanges(stream, () => send('POST', '/agent/v1/pending/p1/approve'), ['pending p1', 'acts']);
    expect(existsSync(join(folder, 'a.txt'))).toBe(true);
  });

  it('has workflows, runs and sessions of other programs', async () => {
    const stream = await follow({ headers: at.bearer });
    await expectChanges(stream, async () => {
      const body = workflow({
        name: 'one',
        rest: 'model = "scripted/one"\n',
        steps: '[[steps]]\nid = "a"\nagent = "worker"\nprompt = "say x"\n',
      });
      const response = await fetch(`${at.url}/agent/v1/workflows`, { method: 'POST', body });
      expect(response.status).toBe(201);
    }, ['workflows one']);
    const lines = await send('POST', '/agent/v1/workflows/one/runs', {});
    const [, run = ''] = /"run_id":"(r\d+)"/.exec(lines) ?? [];
    await expectSeen(stream, [`runs ${run}`]);
    const { id } = JSON.parse(await send('POST', '/agent/v1/sessions', { harness: 'mine' })) as {
      id: string;
    };
    await expectSeen(stream, [`sessions ${id}`]);
  });

  it('has completions and counters', async () => {
    const stream = await follow({ headers: at.bearer });
    await expectChanges(
      stream,
      () => send('POST', '/v1/chat/completions', { messages: [{ role: 'user', content: 'Hi' }] }),
      ['completions', 'telemetry'],
    );
  });

  it('has kernels, bindings, configs, benches and parity of the lab', async () => {
    const stream = await follow({ headers: at.bearer });
    const steps: [() => Promise<unknown>, string[]][] = [
      [() => send('POST', '/lab/v1/kernels', kernel), ['kernels fast']],
      [
        () => send('POST', '/lab/v1/bindings', { kernel: 'fast', components: ['**'] }),
        ['bindings', 'kernels'],
      ],
      [() => send('POST', '/lab/v1/bench', {}), ['benches']],
      [() => send('POST', '/lab/v1/parity/run'), ['parity']],
      [() => send('PUT', '/lab/v1/parity', { mode: 'strict' }), ['parity']],
      [() => send('POST', '/lab/v1/configs', { name: 'saved' }), ['configs saved']],
      [() => send('DELETE', '/lab/v1/bindings'), ['bindings']],
    ];
    for (const [work, expected] of steps) await expectChanges(stream, work, expected);
  });

  it('has racks, and of stored models and their downloads', async () => {
    const stream = await follow({ headers: at.bearer });
    await expectChanges(stream, () => send('PUT', '/recorder/v1/racks/agent', { armed: true }, at.bearer), [
      'racks agent',
    ]);
    await expectChanges(stream, () => send('POST', '/api/pull', { model: 'hf.co/some/model' }), [
      'pulls hf.co/some/model',
      'models',
    ]);
  });

  it('had every topic in these tests', () => {
    expect([...seen].toSorted()).toEqual([...topics].toSorted());
  });
});

describe('a reader', () => {
  it('that connects again with its last id misses nothing; without one, or after a restart, it learns that', async () => {
    const first = await follow({ headers: at.bearer });
    await expectChanges(first, () => send('DELETE', '/lab/v1/bindings'), ['bindings']);
    const { lastId } = first;
    expect(lastId).toMatch(/^[0-9a-f]{12}-\d+$/);
    first.close();
    const other = await follow({ headers: at.bearer });
    await expectChanges(other, () => send('PUT', '/lab/v1/parity', { mode: 'standard' }), ['parity']);
    for (const options of [
      { after: lastId ?? '', headers: at.bearer },
      { headers: { ...at.bearer, 'last-event-id': lastId ?? '' } },
    ]) {
      const again = await follow(options);
      expect(again.frames[0]?.data.resumed).toBe(true);
      await again.until(() => again.changes.includes('parity'));
      expect(again.changes).not.toContain('bindings');
    }
    const [, seq] = (lastId ?? '').split('-');
    for (const after of [`0123456789ab-${seq}`, `${lastId}0000`])
      expect((await follow({ after })).frames[0]?.data.resumed).toBe(false);
    const refused = await fetch(`${at.url}/host/v1/events?after=yesterday`);
    expect([refused.status, await refused.json()]).toMatchObject([
      400,
      { error: { violations: [{ path: 'after', message: expect.stringContaining("got 'yesterday'") }] } },
    ]);
  });

  it('on loopback without the bearer token learns nothing of the planes that need it', async () => {
    const [open, signedIn] = [await follow(), await follow({ headers: at.bearer })];
    expect(open.frames[0]?.data.topics).not.toContain('racks');
    expect(open.frames[0]?.data.topics).not.toContain('completions');
    await expectChanges(
      signedIn,
      () => send('PUT', '/recorder/v1/racks/agent', { armed: false }, at.bearer),
      ['racks agent'],
    );
    await expectChanges(open, () => send('DELETE', '/lab/v1/bindings'), ['bindings']);
    expect(open.changes.filter((change) => change.startsWith('racks'))).toEqual([]);
  });

  it('ends at once when the host stops', async () => {
    const host = startScriptedHost(['--gpu', '--port', '0']);
    const stream = await follow({}, await host.url());
    host.kill('SIGTERM');
    await stream.end;
    expect((await host.exit).code).toBe(0);
  });
});

describe('with a scope', () => {
  it('a token learns of the planes that it may read, and of no other', async () => {
    const dataDir = freshDataDir();
    const host = startScriptedHost([
      '--host',
      '0.0.0.0',
      '--port',
      '0',
      '--control-port',
      '0',
      '--data-dir',
      dataDir,
    ]);
    try {
      const url = (await host.url()).replace('0.0.0.0', '127.0.0.1');
      const [, control = ''] = await host.waitFor('stdout', /control at (http:[^\s)]+)/);
      const token = (name: string) => readFileSync(join(dataDir, name), 'utf8').trim();
      const mint = async (scope: readonly string[] | undefined) => {
        const answer = await fetch(`${control}/host/v1/peers`, {
          method: 'POST',
          headers: { ...json, 'x-svc-operator': token('operator.token') },
          body: JSON.stringify({ name: `peer-${scope?.join('-') ?? 'all'}`, ...(scope ? { scope } : {}) }),
        });
        return { authorization: `Bearer ${((await answer.json()) as { token: string }).token}` };
      };
      expect((await fetch(`${url}/host/v1/events`)).status).toBe(401);
      const topicsOf = async (scope: readonly string[] | undefined) =>
        (await follow({ headers: await mint(scope) }, url)).frames[0]?.data.topics;
      expect(await topicsOf(undefined)).toEqual(topics);
      expect(await topicsOf(['read'])).toEqual(topics);
      expect(await topicsOf(['infer'])).toEqual(['models', 'pulls']);
      const ofAgents = ['tasks', 'runs', 'pending', 'acts', 'sessions', 'receipts', 'agents', 'workflows'];
      for (const scope of ['agent', 'approve']) expect(await topicsOf([scope])).toEqual(ofAgents);
      // What it may not read is not sent, either.
      const reader = await follow({ headers: await mint(['infer', 'agent']) }, url);
      const all = await follow({ headers: { authorization: `Bearer ${token('bearer.token')}` } }, url);
      const put = await fetch(`${url}/recorder/v1/racks/agent`, {
        method: 'PUT',
        headers: { ...json, authorization: `Bearer ${token('bearer.token')}` },
        body: '{"armed":true}',
      });
      expect(put.status).toBe(200);
      await all.until(() => all.changes.includes('racks agent'));
      await fetch(`${url}/agent/v1/sessions`, {
        method: 'POST',
        headers: { ...json, authorization: `Bearer ${token('bearer.token')}` },
        body: '{"harness":"mine"}',
      });
      await reader.until(() => reader.changes.some((change) => change.startsWith('sessions')));
      expect(reader.changes.filter((change) => change.startsWith('racks'))).toEqual([]);
    } finally {
      await host.end();
    }
  });
});

/** A listener on loopback with the route alone, whose readers are checked again after 20 ms. */
function changesApp(findPeer?: AccessOptions['findPeer']) {
  const bus = new ChangeBus();
  const bearer = generateSecret('bearer');
  const sessions = new BrowserSessions({ name: 'session', isTls: false });
  const access = new Access({
    bind: findPeer ? 'lan' : 'loopback',
    bearerHash: hashSecret(bearer),
    operatorHash: undefined,
    sessions,
    ...(findPeer ? { findPeer } : {}),
  });
  const route = changesRoute({ bus, endpointId: 'e0', heartbeatMs: 20 });
  const app = createApp({
    planes: [
      {
        name: 'host',
        summary: '',
        prefixes: ['/host'],
        envelope: hostEnvelope,
        errorSchema: hostError,
        routes: [route],
      },
    ],
    access,
    stopSignal: new AbortController().signal,
    onFault: (_, error) => {
      throw error;
    },
  });
  const open = async (headers: Record<string, string>) =>
    await app.request('http://127.0.0.1/host/v1/events', { headers });
  return { bus, bearer, sessions, open };
}

describe('a stream', () => {
  it('on loopback ends when its session does, because it has topics that need one', async () => {
    const { bus, bearer, sessions, open } = changesApp();
    const page = { host: '127.0.0.1', 'sec-fetch-site': 'same-origin' };
    const cookie = sessions.start(new Headers(page), bearer).cookie.split(';')[0] ?? '';
    const stream = await open({ ...page, cookie });
    sessions.end(new Headers({ ...page, cookie }));
    expect(await stream.text()).toContain('"racks"');
    expect(bus.readers).toBe(0);
  });

  it('of a peer is refused where the peer has many, and others are not', async () => {
    const { bus, bearer, open } = changesApp(async (token) => ({ name: token, scope: null }));
    const as = (token: string) => open({ authorization: `Bearer ${token}` });
    const opened = await Promise.all(Array.from({ length: 70 }, () => as('greedy')));
    expect(opened.filter(({ status }) => status === 200)).toHaveLength(64);
    expect(await opened.find(({ status }) => status === 503)?.json()).toMatchObject({
      error: { code: 'too_many_streams' },
    });
    const others = [await as('modest'), await as(bearer)];
    expect(others.map(({ status }) => status)).toEqual([200, 200]);
    for (const { body, status } of [...opened, ...others]) if (status === 200) await body?.cancel();
    expect(bus.readers).toBe(0);
  });

  it('has no id that is longer than any real one, because the list of changes would keep it', async () => {
    const { bus, open } = changesApp();
    const { body } = await open({});
    bus.announce('kernels', 'k'.repeat(10_000));
    bus.announce('kernels', 'short');
    let text = '';
    for await (const piece of body?.pipeThrough(new TextDecoderStream()) ?? []) {
      text += piece;
      if (text.includes('short')) break;
    }
    expect(text).toContain('{"changes":[{"topic":"kernels"},{"topic":"kernels","id":"short"}]}');
  });
});

describe('a slow reader', () => {
  it('holds no memory, and learns that it has to read everything anew', async () => {
    const changes = new ChangeBus();
    const server = await serveScripted({}, 'ready', undefined, [], { changes });
    try {
      // Reads nothing until it is far behind.
      const socket = connect(server.port, '127.0.0.1');
      socket.write('GET /host/v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n');
      const head = await new Promise<string>((resolve) =>
        socket.once('data', (data) => resolve(String(data))),
      );
      expect(head).toContain('event: hello');
      socket.pause();
      const fast = await follow({}, server.url);
      let last = 0;
      const announce = async (count: number, idLength: number) => {
        for (let one = 0; one < count; one++) changes.announce('tasks', `t${++last}-${'x'.repeat(idLength)}`);
        await fast.until(() => fast.changes.some((change) => change.startsWith(`tasks t${last}-`)));
      };
      // More than the buffers of the connection, and then more changes than are kept.
      for (let round = 0; round < 9; round++) await announce(4000, 480);
      for (let round = 0; round < 10; round++) await announce(1000, 0);
      expect(fast.frames.filter(({ event }) => event === 'reset')).toEqual([]);
      let text = '';
      const isReset = new Promise<void>((resolve) =>
        socket.on('data', (data) => {
          text += String(data);
          if (text.includes('event: reset')) resolve();
        }),
      );
      socket.resume();
      await isReset;
      const isHere = new Promise<void>((resolve) =>
        socket.on('data', (data) => {
          text += String(data);
          if (text.includes('"id":"after-reset"')) resolve();
        }),
      );
      changes.announce('tasks', 'after-reset');
      await isHere;
      socket.destroy();
    } finally {
      await server.close();
    }
  });
});
