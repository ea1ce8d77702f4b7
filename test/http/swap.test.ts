/** Swapping the resident model: who waits, who is served, and the state after a failure. */
import Anthropic from '@anthropic-ai/sdk';
import { afterEach, describe, expect, test } from 'vitest';
import { modelList } from '../../src/wires/core/models-schema.ts';
import { type Swapping, swappingHost } from '../support/swapping-host.ts';
import { until } from '../support/until.ts';
import { runsRest } from '../support/tier.ts';

type Host = Awaited<ReturnType<typeof swappingHost>>;
const hosts: Host[] = [];
async function serve(options: Swapping): Promise<Host> {
  const host = await swappingHost(options);
  hosts.push(host);
  return host;
}
afterEach(async () => {
  for (const host of hosts.splice(0)) {
    expect(host.faults).toEqual([]);
    expect(host.overlaps).toEqual([]);
    await host.close();
  }
});

const ask = (model?: string) => ({
  ...(model ? { model } : {}),
  messages: [{ role: 'user', content: 'hi' }],
  stream: false,
});
const textOf = async (response: Response): Promise<string> => {
  const body = (await response.json()) as { message?: { content: string }; error?: unknown };
  return body.message?.content ?? JSON.stringify(body);
};
/** Twenty pieces; all but the first wait for the test. */
const heldAfterFirst = (held: PromiseWithResolvers<void>) => ({
  answer: () => Array<string>(20).fill('.'),
  hold: (piece: number) => (piece === 1 ? held.promise : undefined),
});

describe('without --swap', () => {
  test('another stored model is refused with advice, on every wire', async () => {
    const { post, get } = await serve({ models: { a: {}, b: {} }, swap: false });
    const refused = await post('/api/chat', ask('b'));
    expect([refused.status, await refused.json()]).toEqual([
      404,
      {
        error: expect.stringMatching(
          /'b' is stored but not resident; the resident model is 'a'.*--swap.*--model b/,
        ),
      },
    ]);
    const openai = await post('/v1/chat/completions', ask('b'));
    expect([openai.status, await openai.json()]).toMatchObject([
      404,
      { error: { code: 'model_not_resident', param: 'model' } },
    ]);
    const one = await get('/v1/models/b');
    expect([one.status, await one.json()]).toMatchObject([404, { error: { code: 'model_not_resident' } }]);
    expect((await post('/api/chat', ask('absent'))).status).toBe(404);
    expect(await textOf(await post('/api/chat', ask('a:latest')))).toBe('a');
  });
});

describe('with --swap', () => {
  test('the list includes the stored models, with the members of both vendors', async () => {
    const { get, url } = await serve({ models: { a: {}, b: {} } });
    const list = modelList.parse(await (await get('/v1/models')).json());
    expect(list.data.map(({ id }) => id)).toEqual(['a', 'lathe-tiny']);
    expect([list.first_id, list.last_id]).toEqual(['a', 'lathe-tiny']);
    for (const name of ['a:latest', 'lathe-tiny', 'lathe-tiny:latest'])
      expect((await get(`/v1/models/${name}`)).status).toBe(200);
    expect((await get('/v1/models/absent')).status).toBe(404);
    const anthropic = new Anthropic({ baseURL: url, apiKey: 'none' });
    const [first] = (await anthropic.models.list()).data;
    expect(first).toMatchObject({ id: 'a', type: 'model', display_name: 'a' });
    expect(Number.isNaN(Date.parse(first?.created_at ?? ''))).toBe(false);
  });

  test('a request gets the model it names, on every wire, and the swap counts as its load time', async () => {
    const { post, get, loads, engines } = await serve({
      models: { a: {}, b: {}, c: { embeds: 2 } },
      loadMs: 30,
    });
    const answer = (await (await post('/api/chat', ask('b'))).json()) as {
      load_duration: number;
      message: object;
    };
    expect(answer).toMatchObject({ model: 'b', message: { content: 'b' } });
    expect(answer.load_duration).toBeGreaterThan(25e6);
    expect(engines[0]?.closed).toBe(true);
    expect(await (await post('/v1/chat/completions', ask('a'))).json()).toMatchObject({ model: 'a' });
    expect(await (await post('/v1/embeddings', { model: 'c', input: 'x' })).json()).toMatchObject({
      model: 'c',
    });
    expect(await (await post('/v1/completions', { model: 'b', prompt: 'x' })).json()).toMatchObject({
      model: 'b',
    });
    expect(loads).toEqual(['/b', '/a', '/c', '/b']);
    expect(await (await get('/api/ps')).json()).toMatchObject({ models: [{ name: 'b:latest' }] });
    expect((await post('/api/chat', ask('absent'))).status).toBe(404);
    expect(loads).toHaveLength(4);
  });

  test('a request of the wrong kind is refused without a swap, on every wire', async () => {
    const { post, loads } = await serve({ models: { a: {}, b: {}, c: { embeds: 2 } } });
    const says = [{ role: 'user', content: 'x' }];
    const wrong: [path: string, body: object][] = [
      ['/v1/chat/completions', { model: 'c', messages: says }],
      ['/v1/completions', { model: 'c', prompt: 'x' }],
      ['/v1/responses', { model: 'c', input: 'x' }],
      ['/v1/messages', { model: 'c', messages: says, max_tokens: 1 }],
      ['/v1/messages/count_tokens', { model: 'c', messages: says }],
      ['/api/chat', { model: 'c', messages: says }],
      ['/api/generate', { model: 'c', prompt: 'x' }],
      ['/completion', { model: 'c', prompt: 'x' }],
      ['/infill', { model: 'c', input_prefix: 'x', input_suffix: 'y' }],
      ['/apply-template', { model: 'c', messages: says }],
    ];
    const refuseAll = async () => {
      for (const [path, body] of wrong) {
        const refused = await post(path, body);
        expect([path, refused.status, await refused.text()]).toEqual([
          path,
          400,
          expect.stringMatching(/The stored model 'c' makes embeddings/),
        ]);
      }
    };
    await refuseAll();
    expect(loads).toEqual([]);
    // Models that were resident before count too.
    for (const model of ['b', 'c', 'a']) await (await post('/api/generate', { model })).text();
    loads.length = 0;
    await refuseAll();
    expect(loads).toEqual([]);
  });

  test('an unknown name is refused with the route that lists the names', async () => {
    const { post } = await serve({ models: { a: {} } });
    const messageOf = async (path: string, model: string) => await (await post(path, ask(model))).text();
    expect(await messageOf('/v1/chat/completions', 'absent')).toMatch(
      /'absent' does not exist; the resident model is 'a'\. GET \/v1\/models lists/,
    );
    expect(await messageOf('/api/chat', 'absent')).toMatch(
      /'absent' not found; the resident model is 'a'; GET \/api\/tags lists/,
    );
    expect(await messageOf('/v1/chat/completions', 'hf.co/o/absent')).toMatch(
      /pull it first, with POST \/api\/pull/,
    );
    expect(await messageOf('/api/chat', 'hf.co/o/absent')).toMatch(
      /not found; .*pull it first, with POST \/api\/pull/,
    );
  });

  test('running answers finish first, and a request without a model takes the resident one', async () => {
    const held = Promise.withResolvers<void>();
    const { post, loads, looked } = await serve({ models: { a: heldAfterFirst(held), b: {} } });
    const streamed = await post('/api/chat', { ...ask('a'), stream: true });
    const other = post('/api/chat', ask('b'));
    await until(() => looked.includes('b'));
    const any = post('/v1/chat/completions', ask());
    held.resolve();
    const lines = (await streamed.text()).trim().split('\n');
    expect(lines).toHaveLength(21);
    expect(JSON.parse(lines.at(-1) ?? '')).toMatchObject({ done_reason: 'stop' });
    expect(await textOf(await other)).toBe('b');
    expect(await (await any).json()).toMatchObject({ model: 'b' });
    expect(loads).toEqual(['/b']);
  });

  test('mixed requests all get their own model', async () => {
    const { post } = await serve({
      models: { a: { delayMs: 2 }, b: { delayMs: 2 }, c: { delayMs: 2 } },
    });
    const wanted = Array.from({ length: 60 }, (_, index) => 'abc'[index % 3] ?? 'a');
    const got = await Promise.all(wanted.map(async (model) => textOf(await post('/api/chat', ask(model)))));
    expect(got).toEqual(wanted);
  });

  test('a steady stream of requests for one model does not starve another model', async () => {
    const { post } = await serve({ models: { a: { delayMs: 5 }, b: {} } });
    let busy = true;
    const steady = Array.from({ length: 4 }, async () => {
      while (busy) expect(await textOf(await post('/api/chat', ask('a')))).toBe('a');
    });
    expect(await textOf(await post('/api/chat', ask('b')))).toBe('b');
    busy = false;
    await Promise.all(steady);
  });

  test('a client that disconnects while waiting is dropped: there is no swap for it', async () => {
    const held = Promise.withResolvers<void>();
    const { post, loads, looked, ended, resident } = await serve({
      models: { a: heldAfterFirst(held), b: {} },
    });
    const streamed = await post('/api/chat', { ...ask('a'), stream: true });
    const gone = new AbortController();
    const waiting = post('/api/chat', ask('b'), { signal: gone.signal });
    waiting.catch(() => undefined);
    await until(() => looked.includes('b'));
    gone.abort();
    await expect(waiting).rejects.toThrow();
    await until(() => ended.length === 1);
    held.resolve();
    expect(await textOf(await post('/api/chat', ask('a')))).toBe('....................');
    await streamed.text();
    expect(loads).toEqual([]);
    expect(resident.engine?.model.id).toBe('a');
  });

  test('a client that disconnects while its model loads does not affect the others', async () => {
    const held = Promise.withResolvers<void>();
    const { post, loads, ended } = await serve({
      models: { a: {}, b: {} },
      hold: (location) => (location === '/b' ? held.promise : undefined),
    });
    const gone = new AbortController();
    const waiting = post('/api/chat', ask('b'), { signal: gone.signal });
    waiting.catch(() => undefined);
    await until(() => loads.includes('/b'));
    gone.abort();
    await expect(waiting).rejects.toThrow();
    await until(() => ended.length === 1);
    held.resolve();
    expect(await textOf(await post('/api/chat', ask('b')))).toBe('b');
    expect(loads).toEqual(['/b']);
  });

  test('a client that disconnects mid-answer does not delay the swap', async () => {
    const { post } = await serve({
      models: { a: { answer: () => Array<string>(10_000).fill('.'), delayMs: 5 }, b: {} },
    });
    const gone = new AbortController();
    const streamed = await post('/api/chat', { ...ask('a'), stream: true }, { signal: gone.signal });
    await streamed.body?.getReader().read();
    const other = post('/api/chat', ask('b'));
    gone.abort();
    expect(await textOf(await other)).toBe('b');
    // The engine may be stopped and closed right after.
    hosts[0]?.overlaps.splice(0);
  });

  test('the host is alive during a swap, the lab is not available', async () => {
    const held = Promise.withResolvers<void>();
    const { post, get } = await serve({
      models: { a: {}, b: {} },
      hold: (location) => (location === '/b' ? held.promise : undefined),
    });
    const other = post('/api/chat', ask('b'));
    await expect.poll(async () => (await get('/props')).status).toBe(503);
    expect((await get('/v1/models')).status).toBe(200);
    expect((await get('/health')).status).toBe(200);
    expect((await get('/api/version')).status).toBe(200);
    expect(await (await get('/api/ps')).json()).toEqual({ models: [] });
    expect((await post('/lab/v1/bench', {})).status).toBe(503);
    held.resolve();
    expect(await textOf(await other)).toBe('b');
    expect((await get('/props')).status).toBe(200);
  });

  test('a failed load states the reason, and the previous model is restored', async () => {
    const { post, loads } = await serve({
      models: { a: {}, b: {} },
      broken: (location) => location === '/b',
    });
    const [first, second, third] = await Promise.all([
      post('/api/chat', ask('b')),
      post('/v1/chat/completions', ask('b')),
      post('/api/chat', ask('a')),
    ]);
    expect([first.status, await first.json()]).toEqual([
      500,
      { error: "The model 'b' cannot be loaded: /b is broken" },
    ]);
    expect(second.status).toBe(500);
    expect(second.headers.get('x-should-retry')).toBe('false');
    expect(await textOf(third)).toBe('a');
    expect(loads.filter((location) => location === '/a').length).toBeGreaterThan(0);
    expect(await textOf(await post('/api/chat', ask('a')))).toBe('a');
  });

  test('where the previous model fails too, the host says so and loads the next one that works', async () => {
    let broken = false;
    const { post, get } = await serve({
      models: { a: {}, b: {}, c: {} },
      broken: (place) => broken && place !== '/c',
    });
    broken = true;
    expect((await post('/api/chat', ask('b'))).status).toBe(500);
    const none = await post('/v1/chat/completions', ask());
    expect([none.status, await none.json()]).toMatchObject([
      503,
      {
        error: { code: 'no_resident_model', message: expect.stringMatching(/\/b is broken.*\/a is broken/) },
      },
    ]);
    expect((await get('/health')).status).toBe(200);
    expect(await textOf(await post('/api/chat', ask('c')))).toBe('c');
    broken = false;
    expect(await textOf(await post('/api/chat', ask('a')))).toBe('a');
  });

  test.runIf(runsRest)('a stalled reader does not block a swap once the engine is idle', async () => {
    const { post } = await serve({
      models: { a: { answer: () => Array<string>(3000).fill('x'.repeat(10_000)) }, b: {} },
    });
    const stalled = await post('/api/chat', { ...ask('a'), stream: true });
    const engine = hosts[0]?.engines[0];
    if (engine) engine.stats = () => ({ ...Object.getPrototypeOf(engine).stats.call(engine), running: 0 });
    hosts[0]?.overlaps.splice(0);
    expect(await textOf(await post('/api/chat', ask('b')))).toBe('b');
    hosts[0]?.overlaps.splice(0);
    await stalled.body?.cancel();
  });

  test('the number of waiting requests is limited', async () => {
    const held = Promise.withResolvers<void>();
    const { post } = await serve({ models: { a: heldAfterFirst(held), b: {} } });
    const streamed = await post('/api/chat', { ...ask('a'), stream: true });
    const refused: number[] = [];
    const waiting = Array.from({ length: 260 }, async () => {
      const { status } = await post('/api/chat', ask('b'));
      if (status === 429) refused.push(status);
      return status;
    });
    await until(() => refused.length === 4);
    held.resolve();
    const statuses = await Promise.all(waiting);
    expect(statuses.filter((status) => status === 429).length).toBe(4);
    expect(statuses.filter((status) => status === 200).length).toBe(256);
    await streamed.text();
  });
});
