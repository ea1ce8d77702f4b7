/** `GET /ready`: whether requests would be served at once, and why not. */
import { afterEach, expect, test } from 'vitest';
import { EngineError } from '../../src/engine/index.ts';
import { hostError } from '../../src/planes/error-schema.ts';
import { until } from '../support/until.ts';
import { scriptedServers } from '../support/serve.ts';
import { swappingHost } from '../support/swapping-host.ts';

const serve = scriptedServers();
const swapping: { close(): Promise<void> }[] = [];
afterEach(async () => {
  await Promise.all(swapping.splice(0).map((host) => host.close()));
});

type Get = (path: string) => Promise<Response>;
/** The status of `/health`, the status of `/ready` and, unless it is ready, the reason. */
async function states(get: Get): Promise<[health: number, ready: number, reason: string | undefined]> {
  const [health, ready] = [await get('/health'), await get('/ready')];
  const body: unknown = await ready.json();
  if (ready.status === 200) {
    expect(body).toEqual({ status: 'ready' });
    return [health.status, 200, undefined];
  }
  return [health.status, ready.status, hostError.strict().parse(body).error.code];
}

test('while the first model loads neither is ok, with a model both are', async () => {
  const { get, resident, engine } = await serve({}, 'loading');
  expect(await states(get)).toEqual([503, 503, 'model_loading']);
  expect((await get('/ready')).headers.get('retry-after')).toBe('1');
  resident.setReady(engine);
  expect(await states(get)).toEqual([200, 200, undefined]);
});

test('a host without a model is alive and not ready', async () => {
  const { get } = await serve({}, 'none');
  expect(await states(get)).toEqual([200, 503, 'no_resident_model']);
});

test('a host whose GPU is being replaced is alive and not ready', async () => {
  const { get, engine } = await serve();
  engine.unavailable = new EngineError('device_lost', 'the GPU was lost and the model is being loaded again');
  expect(await states(get)).toEqual([200, 503, 'device_lost']);
  engine.unavailable = undefined;
  expect(await states(get)).toEqual([200, 200, undefined]);
});

test('a host that swaps its model is alive and not ready until the swap is over', async () => {
  const held = Promise.withResolvers<void>();
  const host = await swappingHost({
    models: { a: {}, b: {} },
    hold: (location) => (location === '/b' ? held.promise : undefined),
  });
  swapping.push(host);
  expect(await states(host.get)).toEqual([200, 200, undefined]);
  const answer = host.post('/api/chat', {
    model: 'b',
    messages: [{ role: 'user', content: 'hi' }],
    stream: false,
  });
  await until(async () => (await host.get('/ready')).status === 503);
  expect(await states(host.get)).toEqual([200, 503, 'model_swapping']);
  held.resolve();
  expect((await answer).status).toBe(200);
  expect(await states(host.get)).toEqual([200, 200, undefined]);
});
