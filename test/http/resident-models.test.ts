/** `--resident`: which models stay loaded, which one leaves, who waits, and where the loaded ones are shown. */
import fc from 'fast-check';
import { afterEach, describe, expect, test } from 'vitest';
import { EngineError } from '../../src/engine/index.ts';
import { readModelLoads } from '../../src/planes/host/model-load.ts';
import { RequestMetrics } from '../../src/planes/host/request-metrics.ts';
import { substrateInfo } from '../../src/planes/host/schema.ts';
import { psAnswer } from '../../src/planes/ollama/model-schema.ts';
import { modelList } from '../../src/wires/core/models-schema.ts';
import { formatExposition } from '../../src/telemetry/prometheus-text.ts';
import { readPrometheus } from '../support/prometheus.ts';
import type { Script } from '../support/scripted-engine.ts';
import { type Swapping, swappingHost } from '../support/swapping-host.ts';
import { until } from '../support/until.ts';

type Host = Awaited<ReturnType<typeof swappingHost>>;
const hosts: Host[] = [];
async function serve(options: Partial<Swapping> = {}): Promise<Host> {
  const host = await swappingHost({ models: { a: {}, b: {}, c: {}, d: {} }, resident: 3, ...options });
  hosts.push(host);
  return host;
}
const close = async (host: Host): Promise<void> => {
  expect(host.faults).toEqual([]);
  expect(host.overlaps).toEqual([]);
  await host.close();
};
afterEach(async () => {
  for (const host of hosts.splice(0)) await close(host);
});

const ask = (model?: string, more: object = {}) => ({
  ...(model ? { model } : {}),
  messages: [{ role: 'user', content: 'hi' }],
  stream: false,
  ...more,
});
const textOf = async (response: Response): Promise<string> => {
  const body = (await response.json()) as { message?: { content: string }; error?: unknown };
  return body.message?.content ?? JSON.stringify(body);
};
const chat = async ({ post }: Host, model: string): Promise<string> =>
  await textOf(await post('/api/chat', ask(model)));
const running = async ({ get }: Host) => psAnswer.strict().parse(await (await get('/api/ps')).json()).models;
const loaded = async (host: Host): Promise<string[]> =>
  (await running(host)).map(({ name }) => name.replace(/:latest$/, ''));

/** A model whose answers wait, one for each call of `holdNext`, until they are released. */
function holdable(): { script: Script; holdNext: () => { held: Promise<void>; release: () => void } } {
  let next: { held: PromiseWithResolvers<void>; released: PromiseWithResolvers<void> } | undefined;
  return {
    script: {
      hold: (piece) => {
        if (piece > 0 || !next) return undefined;
        const { held, released } = next;
        next = undefined;
        held.resolve();
        return released.promise;
      },
    },
    holdNext: () => {
      next = { held: Promise.withResolvers(), released: Promise.withResolvers() };
      const { held, released } = next;
      return { held: held.promise, release: () => released.resolve() };
    },
  };
}

/** Starts an answer of a model that goes on until it is released. */
async function hold(host: Host, model: string, { holdNext }: ReturnType<typeof holdable>) {
  const { held, release } = holdNext();
  const answer = host.post('/api/chat', ask(model));
  await held;
  return async () => {
    release();
    expect((await answer).status).toBe(200);
    await (await answer).text();
  };
}

describe('models that requests name', () => {
  test('are loaded beside the resident one, which requests without a model and the lab keep using', async () => {
    const host = await serve();
    expect([await chat(host, 'b'), await chat(host, 'c'), await chat(host, 'b')]).toEqual(['b', 'c', 'b']);
    expect(host.loads).toEqual(['/b', '/c']);
    expect(await (await host.post('/v1/chat/completions', ask())).json()).toMatchObject({ model: 'a' });
    expect(await (await host.get('/props')).json()).toMatchObject({ model_alias: 'a' });
    expect(host.resident.requireModel().engine.model.id).toBe('a');
    expect(await (await host.get('/host/v1/health')).json()).toEqual({ model: 'a', status: 'ok' });
    expect(host.engines.map(({ closed }) => closed)).toEqual([false, false, false]);
  });

  test('are all listed, the resident one first', async () => {
    const host = await serve({ models: { a: {}, b: {}, c: {}, e: { embeds: 5 } }, embeddingModel: 'e' });
    for (const model of ['c', 'b']) await chat(host, model);
    const ids = ['a', 'e-id', 'c', 'b'];
    expect(await loaded(host)).toEqual(ids);
    const list = modelList.parse(await (await host.get('/v1/models')).json());
    expect(list.data.slice(0, 4).map(({ id }) => id)).toEqual(ids);
    for (const entry of list.data.slice(0, 4)) expect(entry.memory_bytes).toBe(4096);
    expect(await (await host.get('/v1/models/b')).json()).toMatchObject({ memory_bytes: 4096 });
    const info = substrateInfo.strict().parse(await (await host.get('/host/v1/info')).json());
    expect(info).toMatchObject({ model: { id: 'a' }, embedding_model: { id: 'e-id' } });
    expect(info.models?.map(({ id }) => id)).toEqual(ids);
    const [, , c] = host.engines;
    if (c) c.unavailable = new EngineError('device_lost', 'it was lost');
    expect(await (await host.get('/ready')).json()).toEqual({
      status: 'ready',
      models: ids.map((id) => ({ id, status: id === c?.model.id ? 'device_lost' : 'ready' })),
    });
    const families = new RequestMetrics({ compat: 'vllm' }).families(readModelLoads(host.resident));
    const metrics = readPrometheus(formatExposition(families));
    const modelsOf = (name: string, label: string) =>
      metrics.get(name)?.samples.map(({ labels }) => labels[label]);
    expect(modelsOf('lathe_requests_running', 'model')).toEqual(ids);
    expect(modelsOf('vllm:num_requests_waiting', 'model_name')).toEqual(ids);
    expect(metrics.get('vllm:cache_config_info')?.samples).toHaveLength(1);
  });

  test('are found by their ids before others of the same id are, and no id is listed twice', async () => {
    const host = await serve({ resident: 2, ids: { b: 'x', c: 'x' } });
    expect([await chat(host, 'c'), await chat(host, 'x')]).toEqual(['c', 'c']);
    expect(host.loads).toEqual(['/c']);
    const listed = async (where: Host) =>
      modelList.parse(await (await where.get('/v1/models')).json()).data.map(({ id }) => id);
    expect(await listed(host)).toEqual(['a', 'x', 'lathe-tiny']);
    const both = await serve({ ids: { b: 'x', c: 'x' } });
    expect([await chat(both, 'b'), await chat(both, 'c'), await chat(both, 'x')]).toEqual(['b', 'c', 'b']);
    expect(await listed(both)).toEqual(['a', 'x', 'lathe-tiny']);
  });

  test('do not hide a stored model that has their id as its name', async () => {
    const host = await serve({ ids: { c: 'b' } });
    expect([await chat(host, 'c'), await chat(host, 'b')]).toEqual(['c', 'b']);
    expect(host.loads).toEqual(['/c', '/b']);
  });

  test('are found without a search of the stored ones', async () => {
    const host = await serve({ ids: { a: 'm', b: 'x' } });
    for (const model of ['a', 'b', 'm']) await chat(host, model);
    // The load of `b` ended what was known of `a`.
    await chat(host, 'a');
    host.searches.length = 0;
    const all = ['a', 'b', 'm', 'x', 'b:latest', 'x:latest'];
    for (const model of all) await chat(host, model);
    for (const model of all) expect((await host.get(`/v1/models/${model}`)).status).toBe(200);
    expect(host.searches).toEqual([]);
  });

  test('an alias of a loaded model is listed as loaded', async () => {
    const host = await serve({ aliases: { gpt: 'b' } });
    expect(await textOf(await host.post('/api/chat', ask('gpt')))).toBe('b');
    const list = modelList.parse(await (await host.get('/v1/models')).json());
    expect(list.data.find(({ id }) => id === 'gpt')).toMatchObject({ alias_of: 'b', memory_bytes: 4096 });
  });

  test('of the wrong kind, or that do not exist, change nothing', async () => {
    const host = await serve({ models: { a: {}, b: {}, c: { embeds: 2 } } });
    expect((await host.post('/api/chat', ask('c'))).status).toBe(400);
    expect((await host.post('/api/chat', ask('absent'))).status).toBe(404);
    expect(host.loads).toEqual([]);
  });

  test('with --swap, also the resident model leaves when it is the least recently used', async () => {
    const host = await serve({ resident: 2, swap: true });
    await chat(host, 'b');
    await chat(host, 'c');
    expect(await loaded(host)).toEqual(['c', 'b']);
    expect(await (await host.post('/v1/chat/completions', ask())).json()).toMatchObject({ model: 'c' });
    expect(await chat(host, 'a')).toBe('a');
    expect(await loaded(host)).toEqual(['c', 'a']);
  });
});

describe('the least recently used model leaves', () => {
  type Move = { readonly kind: 'ask' | 'hold' | 'release' | 'unload'; readonly model: string };
  const names = ['a', 'b', 'c', 'd', 'e', 'f'];
  const move: fc.Arbitrary<Move> = fc.record({
    kind: fc.constantFrom('ask', 'ask', 'ask', 'hold', 'release', 'unload'),
    model: fc.constantFrom(...names),
  });

  test('in any sequence of requests: never one with requests, never the resident one', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 2, max: 4 }),
        fc.array(move, { minLength: 5, maxLength: 25 }),
        async (count, moves) => {
          const models = Object.fromEntries(names.map((name) => [name, holdable()] as const));
          const host = await swappingHost({
            models: Object.fromEntries(Object.entries(models).map(([name, { script }]) => [name, script])),
            resident: count,
            loadMs: 0,
          });
          const releases: { model: string; release: () => Promise<void> }[] = [];
          /** The simple model: further models, the least recently used first. */
          let further: string[] = [];
          const expectedLoads: string[] = [];
          const isBusy = (name: string) => releases.some(({ model }) => model === name);
          const use = (name: string) => {
            if (name === 'a') return;
            further = [...further.filter((other) => other !== name), name];
          };
          /** Makes the simple model load a model; false where it would have to wait. */
          const load = (name: string): boolean => {
            if (name === 'a' || further.includes(name)) return true;
            const victim = further.length < count - 1 ? undefined : further.find((other) => !isBusy(other));
            if (further.length >= count - 1 && victim === undefined) return false;
            further = further.filter((other) => other !== victim);
            expectedLoads.push(`/${name}`);
            return true;
          };
          for (const { kind, model } of moves) {
            const script = models[model];
            if (kind === 'unload') {
              await (await host.post('/api/generate', { model, keep_alive: 0 })).text();
              if (!isBusy(model)) further = further.filter((other) => other !== model);
            } else if (kind === 'release') {
              const at = releases.findIndex((one) => one.model === model);
              const [one] = at < 0 ? [] : releases.splice(at, 1);
              if (one) {
                await one.release();
                use(model);
              }
            } else if (script && load(model)) {
              if (kind === 'hold') releases.push({ model, release: await hold(host, model, script) });
              else expect((await host.post('/api/chat', ask(model))).status).toBe(200);
              use(model);
            }
            // An unload of a model with requests happens when they are done.
            if (kind === 'unload' && isBusy(model)) {
              for (const { release } of releases.splice(0)) await release();
              await until(async () => !(await loaded(host)).includes(model) || model === 'a');
              further = further.filter((other) => other !== model);
              for (const name of further) await host.post('/api/chat', ask(name));
            }
            expect((await loaded(host)).toSorted()).toEqual(['a', ...further].toSorted());
          }
          for (const { release } of releases) await release();
          expect(host.loads).toEqual(expectedLoads);
          await close(host);
        },
      ),
      { numRuns: 40 },
    );
  });
});

describe('where all models have requests', () => {
  test('a newcomer waits for the least recently used one; requests for the others go on', async () => {
    const [b, c] = [holdable(), holdable()];
    const host = await serve({ models: { a: {}, b: b.script, c: c.script, d: {} } });
    const [releaseB, releaseC] = [await hold(host, 'b', b), await hold(host, 'c', c)];
    const newcomer = chat(host, 'd');
    await until(() => host.looked.includes('d'));
    // Later requests for the model that must leave wait behind the newcomer; the others do not.
    const behind = chat(host, 'b');
    expect([await chat(host, 'a'), await chat(host, 'c')]).toEqual(['a', 'c']);
    expect(host.loads).toEqual(['/b', '/c']);
    await releaseB();
    expect(await newcomer).toBe('d');
    await releaseC();
    expect(await behind).toBe('b');
    expect(host.loads).toEqual(['/b', '/c', '/d', '/b']);
  });

  test('a newcomer takes the place of the model that is unused first', async () => {
    const [b, c] = [holdable(), holdable()];
    const host = await serve({ models: { a: {}, b: b.script, c: c.script, d: {} } });
    const [releaseB, releaseC] = [await hold(host, 'b', b), await hold(host, 'c', c)];
    const newcomer = chat(host, 'd');
    await until(() => host.looked.includes('d'));
    const other = chat(host, 'b');
    await releaseC();
    expect([await newcomer, await other]).toEqual(['d', 'b']);
    expect(await loaded(host)).toEqual(['a', 'b', 'd']);
    await releaseB();
  });

  test('the time limit of a newcomer says what it waited for, and its place is not kept', async () => {
    const b = holdable();
    const host = await serve({ models: { a: {}, b: b.script, c: {} }, resident: 2 });
    const release = await hold(host, 'b', b);
    const late = await host.post('/v1/chat/completions', ask('c'), {
      headers: { 'content-type': 'application/json', 'x-request-timeout': '0.2' },
    });
    expect([late.status, await late.json()]).toMatchObject([
      408,
      {
        error: {
          code: 'deadline_exceeded',
          message: expect.stringMatching(
            /0\.2 s.*Its model was not loaded, and waited for the requests of the others/,
          ),
        },
      },
    ]);
    expect(await chat(host, 'b')).toBe('b');
    await release();
    expect(host.loads).toEqual(['/b']);
  });

  test('each model has its own limit of waiting requests', async () => {
    const b = holdable();
    const host = await serve({ models: { a: {}, b: b.script, c: {}, d: {} }, resident: 2 });
    const release = await hold(host, 'b', b);
    const refused: string[] = [];
    const waiting = Array.from({ length: 258 }, async () => {
      const response = await host.post('/api/chat', ask('c'));
      if (response.status === 429) refused.push(await response.text());
      return response.status;
    });
    await until(() => refused.length === 2);
    expect(refused[0]).toContain('256 requests wait for this model');
    const other = chat(host, 'd');
    await release();
    const statuses = await Promise.all(waiting);
    expect(statuses.filter((status) => status === 200).length).toBe(256);
    expect(await other).toBe('d');
  });

  test('the queue of one model is not that of another', async () => {
    const b = holdable();
    const host = await serve({ models: { a: {}, b: { ...b.script, capacity: 1 }, c: { capacity: 1 } } });
    const release = await hold(host, 'b', b);
    expect((await host.post('/api/chat', ask('b'))).status).toBe(429);
    expect(await chat(host, 'c')).toBe('c');
    await release();
  });
});

describe('a load', () => {
  test('that fails says why and leaves the others', async () => {
    const host = await serve({ broken: (location) => location === '/d' });
    for (const model of ['b', 'c']) await chat(host, model);
    const failed = await host.post('/v1/chat/completions', ask('d'));
    expect([failed.status, await failed.json()]).toMatchObject([
      500,
      { error: { code: 'model_load_failed', message: "The model 'd' cannot be loaded: /d is broken" } },
    ]);
    expect(await loaded(host)).toEqual(['a', 'c']);
    expect([await chat(host, 'a'), await chat(host, 'c'), await chat(host, 'b')]).toEqual(['a', 'c', 'b']);
  });

  test('of a model whose file was deleted meanwhile fails alone', async () => {
    const deleted = new Set<string>();
    const held = Promise.withResolvers<void>();
    const host = await serve({
      broken: (location) => deleted.has(location),
      hold: (location) => (location === '/b' ? held.promise : undefined),
    });
    const first = chat(host, 'b');
    await until(() => host.loads.includes('/b'));
    const second = chat(host, 'c');
    await until(() => host.looked.includes('c'));
    deleted.add('/c');
    held.resolve();
    expect(await first).toBe('b');
    expect(await second).toMatch(/cannot be loaded/);
    expect(await loaded(host)).toEqual(['a', 'b']);
  });

  test('continues when its client leaves, and the next one finds the model', async () => {
    const held = Promise.withResolvers<void>();
    const host = await serve({ hold: (location) => (location === '/b' ? held.promise : undefined) });
    const gone = new AbortController();
    const waiting = host.post('/api/chat', ask('b'), { signal: gone.signal });
    waiting.catch(() => undefined);
    await until(() => host.loads.includes('/b'));
    gone.abort();
    await expect(waiting).rejects.toThrow();
    await until(() => host.ended.length === 1);
    expect(await chat(host, 'a')).toBe('a');
    held.resolve();
    expect(await chat(host, 'b')).toBe('b');
    expect(host.loads).toEqual(['/b']);
  });

  test('does not delay requests for loaded models', async () => {
    const held = Promise.withResolvers<void>();
    const host = await serve({ hold: (location) => (location === '/c' ? held.promise : undefined) });
    await chat(host, 'b');
    const loading = chat(host, 'c');
    await until(() => host.loads.includes('/c'));
    expect([await chat(host, 'a'), await chat(host, 'b')]).toEqual(['a', 'b']);
    expect((await host.get('/ready')).status).toBe(200);
    held.resolve();
    expect(await loading).toBe('c');
  });
});

describe('memory', () => {
  test('where it is short, the least recently used models leave before their number is reached', async () => {
    const host = await serve({
      models: { a: {}, b: {}, c: {}, big: { memoryBytes: 8192 } },
      resident: 4,
      memoryBytes: 3 * 4096,
    });
    for (const model of ['b', 'c', 'b']) await chat(host, model);
    expect(await chat(host, 'big')).toBe('big');
    expect(await loaded(host)).toEqual(['a', 'big']);
    expect(await chat(host, 'c')).toBe('c');
    expect(await loaded(host)).toEqual(['a', 'c']);
  });

  test('a model that does not fit even alone says how much is missing, and nothing leaves for it', async () => {
    const host = await serve({
      models: { a: {}, b: {}, c: {}, huge: { memoryBytes: 20_000 } },
      resident: 4,
      memoryBytes: 3 * 4096,
    });
    for (const model of ['b', 'c']) await chat(host, model);
    const refused = await host.post('/v1/chat/completions', ask('huge'));
    expect([refused.status, await refused.json()]).toMatchObject([
      500,
      {
        error: {
          code: 'model_load_failed',
          message: expect.stringMatching(
            /'huge' cannot be loaded: 20000 bytes are missing; loaded beside it: a \(4\.0 KiB\), b .*, c /,
          ),
        },
      },
    ]);
    expect(await loaded(host)).toEqual(['a', 'b', 'c']);
  });

  test('a model with requests is not closed for memory', async () => {
    const b = holdable();
    const host = await serve({ models: { a: {}, b: b.script, c: {} }, memoryBytes: 2 * 4096 });
    const release = await hold(host, 'b', b);
    const newcomer = chat(host, 'c');
    await until(() => host.loads.includes('/c'));
    expect(await loaded(host)).toEqual(['a', 'b']);
    await release();
    expect(await newcomer).toBe('c');
    expect(await loaded(host)).toEqual(['a', 'c']);
  });
});

describe('keep_alive 0', () => {
  const unload = async ({ post }: Host, model: string) =>
    await (await post('/api/generate', { model, keep_alive: 0 })).json();

  test('closes the model that it names and no other, and loads nothing', async () => {
    const host = await serve();
    for (const model of ['b', 'c']) await chat(host, model);
    expect(await unload(host, 'b')).toMatchObject({ model: 'b', done: true, done_reason: 'unload' });
    await until(async () => (await loaded(host)).length === 2);
    expect(await loaded(host)).toEqual(['a', 'c']);
    expect(await unload(host, 'd')).toMatchObject({ done_reason: 'unload' });
    expect((await host.post('/api/generate', { model: 'absent', keep_alive: 0 })).status).toBe(404);
    expect(host.loads).toEqual(['/b', '/c']);
    expect(await chat(host, 'b')).toBe('b');
  });

  test('leaves the resident model and the embedding model', async () => {
    const host = await serve({ models: { a: {}, b: {}, e: { embeds: 5 } }, embeddingModel: 'e' });
    for (const model of ['a', 'e'])
      expect(await unload(host, model)).toMatchObject({ done_reason: 'unload' });
    expect(await loaded(host)).toEqual(['a', 'e-id']);
  });

  test('with a prompt closes the model after the answer, unless another request came', async () => {
    const b = holdable();
    const host = await serve({ models: { a: {}, b: b.script, c: { embeds: 2 } } });
    const { held, release } = b.holdNext();
    const answer = host.post('/api/chat', ask('b', { keep_alive: '0s' }));
    await held;
    const expiry = async () => {
      const entry = (await running(host)).find(({ name }) => name === 'b:latest');
      return Date.parse(entry?.expires_at ?? '') - Date.now();
    };
    expect(await expiry()).toBeLessThan(1000);
    release();
    expect(await textOf(await answer)).toBe('b');
    await until(async () => (await loaded(host)).length === 1);
    await (await host.post('/api/embed', { model: 'c', input: 'x', keep_alive: 0 })).text();
    await until(async () => (await loaded(host)).length === 1);

    const again = await hold(host, 'b', b);
    await unload(host, 'b');
    expect(await chat(host, 'b')).toBe('b');
    expect(await expiry()).toBeGreaterThan(1e9);
    await again();
    expect(await loaded(host)).toEqual(['a', 'b']);
    expect(host.loads).toEqual(['/b', '/c', '/b']);
  });
});
