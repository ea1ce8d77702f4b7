import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { QueuedResponses } from '../../src/planes/v1/stored/queued-responses.ts';
import { ResponseStore } from '../../src/planes/v1/stored/response-store.ts';
import { Store } from '../../src/store/index.ts';
import { freshSqlite } from '../support/databases.ts';
import { scriptedServers } from '../support/serve.ts';
import { connectSocket } from '../support/socket-turns.ts';
import { runsRest } from '../support/tier.ts';
import { until } from '../support/until.ts';

const serve = scriptedServers();
const route = '/v1/responses';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;
/** After what is still being closed is gone: a collection runs finalizers, and what these free is left to the next one. */
const heapBytes = async () => {
  let bytes = Number.POSITIVE_INFINITY;
  for (let n = 0; n < 20; n++) {
    collectGarbage();
    bytes = Math.min(bytes, process.memoryUsage().heapUsed);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return bytes;
};

test.runIf(runsRest)(
  'memory stays flat over 10,000 mixed requests with stored responses and clients that vanish',
  async () => {
    const store = await Store.open({ url: freshSqlite(), endpointId: 'e0' });
    try {
      const responses = new ResponseStore({ store, retentionDays: 30 });
      const queued = new QueuedResponses(store);
      const { post, get, url, engine, faults } = await serve(
        { answer: () => Array<string>(8).fill('word ') },
        'ready',
        undefined,
        [],
        { responses, queued },
      );
      const idOf = async (response: Response) => ((await response.json()) as { id: string }).id;
      let previous: string | undefined;
      const requests: ((index: number) => Promise<unknown>)[] = [
        async () => (await post(route, { input: 'x', store: false })).text(),
        async (index) => {
          const chain = index % 100 > 10 && previous ? { previous_response_id: previous } : {};
          const response = await post(route, { input: 'y'.repeat(20), ...chain });
          previous = response.ok ? await idOf(response) : undefined;
          if (!response.ok) await response.text();
        },
        async () => (await post(route, { input: 'x', stream: true })).text(),
        async () => {
          const left = new AbortController();
          const response = await post(route, { input: 'x', stream: true }, { signal: left.signal });
          await response.body?.getReader().read();
          left.abort();
        },
        async () => {
          const id = await idOf(await post(route, { input: 'x', background: true, stream: false }));
          await (await get(`${route}/${id}/cancel`, { method: 'POST' })).text();
          await (await get(`${route}/${id}`)).text();
        },
        async () => (await post(route, { input: 'x', background: true, stream: true })).text(),
        async (index) => {
          const { ask, socket } = await connectSocket(url);
          await ask({ input: 'x', store: index % 2 === 0 });
          socket.send(JSON.stringify({ type: 'response.create', input: 'x' }));
          socket.terminate();
        },
        async () => (await post(`${route}/input_tokens`, { input: 'x' })).text(),
      ];
      const run = async (count: number) => {
        for (let index = 0; index < count; index += 10)
          await Promise.all(
            Array.from(
              { length: 10 },
              async (_, offset) => await requests[(index + offset) % requests.length]?.(index),
            ),
          );
        await until(() => engine.running === 0);
        // The scripted engine keeps every request.
        engine.requests.length = 0;
      };
      await run(1000);
      const before = await heapBytes();
      await run(10_000);
      const growth = (await heapBytes()) - before;
      expect(faults).toEqual([]);
      expect(growth).toBeLessThan(8 * 1024 * 1024);
    } finally {
      await store.close();
    }
  },
);
