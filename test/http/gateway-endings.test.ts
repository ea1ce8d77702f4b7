import { request as httpRequest } from 'node:http';
import { afterEach, describe, expect, it } from 'vitest';
import { wires } from '../support/gateway/asks.ts';
import { customerOf, gatewayWorld, nanoOf, type WorldOptions } from '../support/gateway/world.ts';
import { eventLoopTurns, until } from '../support/until.ts';

const undo: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const step of undo.splice(0).toReversed()) await step();
});

async function start(options?: WorldOptions) {
  const world = await gatewayWorld(options);
  undo.push(() => world.close());
  const customer = await world.customer();
  const { path, body } = wires.chat;
  return {
    ...world,
    customer,
    /** On the chat wire. */
    asks: (
      model: string,
      stream: boolean,
      more: { signal?: AbortSignal; headers?: Record<string, string> } = {},
    ) => world.ask(path, { customer, body: body(model, stream), ...more }),
    rows: async () => (await world.witness.rows()).filter((row) => row.key_id === customer.keyId),
  };
}

/** 429s and 500s without a retry delay. */
const soon = { 'retry-after-ms': '1' };

describe('a gateway that stops', () => {
  /** A request whose last bytes the test sends. */
  function slowly(url: string, secret: string) {
    const text = JSON.stringify(wires.chat.body('chat', false));
    const sent = httpRequest(`${url}${wires.chat.path}`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${secret}`,
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(text),
      },
    });
    const status = new Promise<number>((resolve, reject) => {
      sent.on('response', (response) => {
        response.resume().on('end', () => resolve(response.statusCode ?? 0));
      });
      sent.on('error', reject);
    });
    sent.write(text.slice(0, -1));
    return { end: () => sent.end(text.slice(-1)), status };
  }

  it('waits for a request that is still being received', async () => {
    const { gateway, url, customer, provider, arrived } = await start();
    provider.script([{ say: { text: 'Hello.' } }]);
    const one = slowly(url, customer.secret);
    await until(() => arrived() === 1);
    const closed = gateway.close(600_000);
    await new Promise((resolve) => setTimeout(resolve, 50));
    one.end();
    expect(await one.status).toBe(200);
    await closed;
  });

  it('but not longer than for other requests', async () => {
    const { gateway, url, customer, arrived } = await start();
    const one = slowly(url, customer.secret);
    one.status.catch(() => undefined);
    await until(() => arrived() === 1);
    await gateway.close(50);
    await expect(one.status).rejects.toThrow(/hang up|reset/i);
  });
});

describe('a caller that disconnects', () => {
  const usage = { input: 11, output: 7 };
  const say = { text: 'One two three four five six seven.', usage };

  /** Streams that pause at their third frame until the test continues, and callers that disconnect there. */
  async function startHeld(options: WorldOptions) {
    const started = await start(options);
    const goOn = Promise.withResolvers<void>();
    undo.push(async () => goOn.resolve());
    started.provider.script([{ say, hold: (frame) => (frame === 3 ? goOn.promise : undefined) }]);
    return {
      ...started,
      goOn: () => goOn.resolve(),
      leave: async () => {
        const leaving = new AbortController();
        const response = await started.asks('chat', true, { signal: leaving.signal });
        leaving.abort();
        return response.status;
      },
    };
  }

  it.each([false, true])(
    'frees its place in the limits at once, and its hold stays (shared limits %s)',
    async (shared) => {
      const limits = { concurrency: 4, shared, drainSecs: 600, drainIdleSecs: 600 };
      const { leave, goOn, rows, witness } = await startHeld({ limits });
      for (let round = 0; round < 4; round += 1) expect(await leave()).toBe(200);
      // As soon as the gateway has noticed the disconnects.
      await expect.poll(leave, { timeout: 30_000, interval: 20 }).toBe(200);
      // The provider's stream has not ended: nothing is settled yet.
      const held = await witness.openHolds();
      expect(held).toBeGreaterThan(0);
      goOn();
      await expect.poll(async () => (await rows()).length).toBeGreaterThanOrEqual(held);
      await expect.poll(() => witness.openHolds()).toBe(0);
    },
  );

  it('repeatedly has at most as many answers drained as concurrent requests allowed, and pays for all', async () => {
    const limits = { concurrency: 2, drainSecs: 600, drainIdleSecs: 600 };
    const { leave, goOn, rows, witness, provider } = await startHeld({ limits });
    let taken = 0;
    while (taken < 8) if ((await leave()) === 200) taken += 1;
    // The last ones are read on for; the others were cut off at the provider, and settled by what was seen.
    await expect.poll(() => provider.open).toBe(2);
    await expect.poll(async () => (await rows()).length).toBe(6);
    for (const row of await rows()) expect(row).toMatchObject({ outcome: 'client_gone', ended: 'settled' });
    expect((await rows()).every(({ cost }) => cost > 0n)).toBe(true);
    expect(await witness.openHolds()).toBe(2);
    goOn();
    await expect.poll(async () => (await rows()).length).toBe(8);
    expect((await rows()).filter(({ cost }) => cost === nanoOf({ fresh: 11, output: 7 }))).toHaveLength(2);
    expect(await witness.faults()).toEqual([]);
  });

  it('during a retry delay owes nothing', async () => {
    const { provider, asks, rows } = await start({ limits: { drainSecs: 0, retries: 1 } });
    const requestReceived = Promise.withResolvers<void>();
    provider.script(() => {
      requestReceived.resolve();
      return { status: 500, headers: { 'retry-after': '10' } };
    });
    const leaving = new AbortController();
    asks('claude', false, { signal: leaving.signal }).catch(() => undefined);
    await requestReceived.promise;
    await until(() => provider.open === 0);
    await eventLoopTurns();
    leaving.abort();
    await expect.poll(rows).toHaveLength(1);
    expect((await rows())[0]).toMatchObject({ ended: 'released', cost: 0n, outcome: 'client_gone' });
  });
});

describe('an error of a provider within a stream', () => {
  const refusal = { error: { message: 'No.', type: 'invalid_request_error', code: 'invalid_prompt' } };

  it('about an invalid request does not count against its health', async () => {
    const { provider, asks } = await start({ limits: { breakerFailures: 2, retries: 0, breakerSecs: 60 } });
    provider.script([
      { raw: { contentType: 'text/event-stream', body: `data: ${JSON.stringify(refusal)}\n\n` } },
    ]);
    for (let n = 0; n < 3; n++) {
      const response = await asks('chat', true);
      expect(response.status).toBe(400);
      await response.text();
    }
    provider.script([{ say: { text: 'Hello.' } }]);
    expect((await asks('chat', false)).status).toBe(200);
  });
});

describe('a model that fails', () => {
  it.each([
    ['errors', { status: 500, headers: soon }, 502],
    ['limits of requests', { status: 429, headers: soon }, 429],
  ])('for one caller with %s is still used for others', async (_, reply, status) => {
    const limits = { breakerFailures: 3, retries: 2, breakerSecs: 600 };
    const { provider, asks, ask, witness } = await start({ limits });
    provider.script([reply]);
    for (let n = 0; n < 5; n++) expect((await asks('chat', false)).status).toBe(status);
    provider.script([{ say: { text: 'Hello.' } }]);
    const another = await customerOf(witness.books);
    const { path, body } = wires.chat;
    expect((await ask(path, { customer: another, body: body('chat', false) })).status).toBe(200);
  });

  it('for several callers gets no requests for a while: a 503 with the retry time', async () => {
    const limits = { breakerFailures: 4, retries: 0, breakerSecs: 600 };
    const { provider, asks, ask, witness, rows } = await start({ limits });
    const another = await customerOf(witness.books);
    const { path, body } = wires.chat;
    provider.script([{ status: 500 }]);
    for (let n = 0; n < 2; n++) {
      expect((await asks('chat', false)).status).toBe(502);
      expect((await ask(path, { customer: another, body: body('chat', true) })).status).toBe(502);
    }
    provider.script([{ say: { text: 'Hello.' } }]);
    const before = provider.requests.length;
    const refused = await asks('chat', false);
    expect({ status: refused.status, cost: refused.headers.get('x-svc-cost-nanousd') }).toEqual({
      status: 503,
      cost: '0',
    });
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(500);
    expect(await refused.json()).toMatchObject({ error: { code: 'upstream_unavailable' } });
    expect(provider.requests).toHaveLength(before);
    // Another model, at another provider.
    expect((await asks('claude', false)).status).toBe(200);
    expect((await rows()).filter(({ status }) => Number(status) === 503)).toMatchObject([
      { cost: 0n, outcome: 'failed' },
    ]);
  });

  it('because its account has no credit is not retried, and a fallback answers', async () => {
    const { provider, asks } = await start({ fallbacks: new Map([['copy', ['claude']]]) });
    provider.script(({ model }) =>
      model === 'upstream-claude'
        ? { say: { text: 'Hello.' } }
        : {
            status: 429,
            headers: { 'retry-after': '1' },
            raw: {
              contentType: 'application/json',
              body: '{"error":{"type":"insufficient_quota","code":"insufficient_quota","message":"You exceeded your current quota."}}',
            },
          },
    );
    const refused = await asks('chat', false);
    expect(refused.status).toBe(502);
    expect(refused.headers.get('retry-after')).toBeNull();
    expect(refused.headers.get('x-should-retry')).toBe('false');
    expect(await refused.json()).toMatchObject({ error: { code: 'provider_quota_exhausted' } });
    expect(provider.requests, 'it is asked once').toHaveLength(1);
    const stoodIn = await asks('copy', false);
    expect(stoodIn.headers.get('x-svc-effective-model')).toBe('claude');
  });
});

describe('a fallback that cannot express the request', () => {
  it.each([false, true])(
    'is skipped: the caller gets the error of the requested model (streamed: %s)',
    async (stream) => {
      const { provider, ask, customer, rows } = await start({
        limits: { retries: 0 },
        fallbacks: new Map([['chat', ['claude', 'chat-other']]]),
      });
      const body = { ...wires.chat.body('chat', stream), logprobs: true, max_tokens: 200 };
      provider.script(({ model }) =>
        model === 'upstream-chat' ? { status: 500, headers: soon } : { say: { text: 'Hello.' } },
      );
      const served = await ask(wires.chat.path, { customer, body });
      expect({ status: served.status, by: served.headers.get('x-svc-effective-model') }).toEqual({
        status: 200,
        by: 'chat-other',
      });
      await served.text();
      provider.script([{ status: 500, headers: soon }]);
      const refused = await ask(wires.chat.path, { customer, body });
      expect(refused.status).toBe(502);
      await refused.text();
      await expect.poll(rows).toHaveLength(2);
    },
  );
});
