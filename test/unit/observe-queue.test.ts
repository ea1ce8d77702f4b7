import { expect, test } from 'vitest';
import type { Observe } from '../../src/observe/observe.ts';
import { ConcurrencyLimiter } from '../../src/observe/concurrency-limiter.ts';
import type { ObserveEnvelope } from '../../src/observe/types.ts';
import { Access } from '../../src/planes/access.ts';
import { createApp } from '../../src/http/app.ts';
import { hostError } from '../../src/planes/error-schema.ts';
import { createObservePlane } from '../../src/planes/observe/routes.ts';
import { hashSecret } from '../../src/signing/secret.ts';

const bearer = 'lathe_bearer_of-the-tests-only';

/** The plane over queries that the test ends. */
function serving(waitMs: number) {
  const turns = new ConcurrencyLimiter({ maxConcurrent: 1, maxWaiting: 2, waitMs });
  const begun: (() => void)[] = [];
  const envelope = { surface: 'acts' } as ObserveEnvelope;
  const query = () =>
    turns.run(async () => {
      await new Promise<void>((resolve) => begun.push(resolve));
      return envelope;
    });
  const observe = { query, ask: query } as unknown as Observe;
  const app = createApp({
    planes: [createObservePlane(observe)],
    access: new Access({ bind: 'loopback', bearerHash: hashSecret(bearer), operatorHash: undefined }),
    stopSignal: new AbortController().signal,
    onFault: (_, error) => expect(error).toBeUndefined(),
  });
  const ask = (path = 'query') =>
    Promise.resolve(
      app.request(`http://127.0.0.1/observe/v1/${path}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${bearer}`, 'content-type': 'application/json' },
        body: '{"surface": "acts"}',
      }),
    );
  const running = async (count: number) => {
    await expect.poll(() => begun.length).toBe(count);
  };
  return { ask, begun, running };
}

test.each(['query', 'questions/load'])(
  'POST %s: a request that waits too long gets 503 observe_busy with Retry-After',
  async (path) => {
    const { ask, begun, running } = serving(20);
    const first = ask();
    await running(1);
    const late = await ask(path);
    expect([late.status, late.headers.get('retry-after')]).toEqual([503, '1']);
    const { error } = hostError.parse(await late.json());
    expect(error).toMatchObject({
      code: 'observe_busy',
      message: expect.stringContaining('20 ms') as string,
    });
    begun[0]?.();
    expect((await first).status).toBe(200);
    // The place of the client that disconnected is free, and no query runs for it.
    const next = ask();
    await running(2);
    begun[1]?.();
    expect((await next).status).toBe(200);
  },
);

test('a full queue refuses at once; queued queries are answered in order', async () => {
  const turns = new ConcurrencyLimiter({ maxConcurrent: 1, maxWaiting: 2, waitMs: 600_000 });
  const held = Promise.withResolvers<void>();
  const order: number[] = [];
  const all = [0, 1, 2].map((n) => turns.run(async () => void (await held.promise, order.push(n))));
  await expect(turns.run(() => Promise.resolve())).rejects.toMatchObject({ code: 'observe_busy' });
  held.resolve();
  await Promise.all(all);
  expect(order).toEqual([0, 1, 2]);
});
