import { request as httpRequest } from 'node:http';
import { afterEach, describe, expect, it } from 'vitest';
import { wires } from '../support/gateway/asks.ts';
import { gatewayWorld, type WorldOptions } from '../support/gateway/world.ts';
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

/** 429s and 500s without a pause, so that nobody waits. */
const soon = { 'retry-after-ms': '1' };

describe('a gateway that stops', () => {
  /** A request of which the last bytes are sent by hand. */
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

  it('waits for a request that is still on its way in', async () => {
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

  it('but not for longer than it waits for others', async () => {
    const { gateway, url, customer, arrived } = await start();
    const one = slowly(url, customer.secret);
    one.status.catch(() => undefined);
    await until(() => arrived() === 1);
    await gateway.close(50);
    await expect(one.status).rejects.toThrow(/hang up|reset/i);
  });
});

describe('a caller that leaves', () => {
  it('while the provider is let rest after a failure owes nothing', async () => {
    const { provider, asks, rows } = await start({ limits: { drainSecs: 0, retries: 1 } });
    const asked = Promise.withResolvers<void>();
    provider.script(() => {
      asked.resolve();
      return { status: 500, headers: { 'retry-after': '10' } };
    });
    const leaving = new AbortController();
    asks('claude', false, { signal: leaving.signal }).catch(() => undefined);
    await asked.promise;
    await until(() => provider.open === 0);
    await eventLoopTurns();
    leaving.abort();
    await expect.poll(rows).toHaveLength(1);
    expect((await rows())[0]).toMatchObject({ ended: 'released', cost: 0n, outcome: 'client_gone' });
  });
});

describe('what a provider says in a stream', () => {
  const refusal = { error: { message: 'No.', type: 'invalid_request_error', code: 'invalid_prompt' } };

  it('of a request that is wrong does not speak against its health', async () => {
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

describe('a fallback that cannot be asked so', () => {
  it.each([false, true])('is none: the caller hears of what it asked for (streamed: %s)', async (stream) => {
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
  });
});
