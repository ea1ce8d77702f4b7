import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { EngineError } from '../../src/engine/types.ts';
import { openaiError } from '../../src/planes/error-schema.ts';
import { readEvents, scriptedServers } from '../support/serve.ts';
import { until } from '../support/until.ts';

const serve = scriptedServers();

const hi = { messages: [{ role: 'user', content: 'hi' }] };
const chat = '/v1/chat/completions';

describe('the engine refuses or fails', () => {
  test('a full queue is 429 with Retry-After, streamed or not', async () => {
    const held = Promise.withResolvers<void>();
    const { post, engine } = await serve({ capacity: 1, hold: () => held.promise });
    const first = post(chat, hi);
    await until(() => engine.running === 1);
    for (const stream of [false, true]) {
      const response = await post(chat, { ...hi, stream });
      expect(response.status).toBe(429);
      expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0);
      expect(openaiError.parse(await response.json()).error).toMatchObject({
        code: 'queue_full',
        type: 'rate_limit_error',
      });
    }
    held.resolve();
    expect((await first).status).toBe(200);
  });

  test('a lost device is 503 before the first token, an error frame after it', async () => {
    const error = new EngineError('device_lost', 'the GPU was lost; the model is being loaded again');
    const early = await serve({ fail: { after: 0, error } });
    for (const stream of [false, true]) {
      const response = await early.post(chat, { ...hi, stream });
      expect(response.status).toBe(503);
      expect(response.headers.get('retry-after')).toBe('1');
    }
    const late = await serve({ fail: { after: 2, error } });
    expect((await late.post(chat, hi)).status).toBe(503);
    const frames = await readEvents(await late.post(chat, { ...hi, stream: true }));
    expect(frames).not.toContain('[DONE]');
    expect(openaiError.parse(JSON.parse(frames.at(-1) ?? '')).error).toMatchObject({
      code: 'device_lost',
      type: 'server_error',
    });
  });

  test('an internal error is a 500 that contains no secrets and names the request', async () => {
    const { post, faults } = await serve({ fail: { after: 0, error: new TypeError('secret path /root') } });
    const response = await post(chat, hi);
    expect(response.status).toBe(500);
    const text = await response.text();
    expect(text).not.toContain('secret');
    expect(text).toContain(response.headers.get('x-request-id'));
    expect(faults).toEqual([expect.any(TypeError)]);
  });
});

describe('a client that disconnects', () => {
  test.each([false, true])('stops the generation (stream: %s)', async (stream) => {
    const held = Promise.withResolvers<void>();
    const { post, engine, faults } = await serve({
      answer: () => Array(1000).fill('x'),
      hold: (piece) => (piece === 4 ? held.promise : undefined),
    });
    const leave = new AbortController();
    const request = post(chat, { ...hi, stream }, { signal: leave.signal });
    request.catch(() => undefined);
    await until(() => engine.produced === 4);
    leave.abort();
    await until(() => engine.requests[0]?.signal?.aborted === true);
    held.resolve();
    await until(() => engine.running === 0);
    expect(engine.produced).toBe(4);
    expect(engine.aborted).toBe(1);
    expect(faults).toEqual([]);
  });

  test('while it waits behind a hung device holds nothing', async () => {
    const { post, get, engine, faults } = await serve({ hang: true });
    const leave = new AbortController();
    const request = post(chat, { ...hi, stream: true }, { signal: leave.signal });
    request.catch(() => undefined);
    await until(() => engine.running === 1);
    leave.abort();
    await expect(request).rejects.toThrow();
    expect((await get('/health')).status).toBe(200);
    expect(faults).toEqual([]);
  });
});

test('a reader that stops reading stops the production of chunks', async () => {
  const piece = 'x'.repeat(100_000);
  const { post, engine } = await serve({ answer: () => Array(3000).fill(piece) });
  const response = await post(chat, { ...hi, stream: true });
  const reader = response.body?.getReader();
  await reader?.read();
  // The buffers of sockets and streams fill up soon; otherwise all 3000 chunks would arrive.
  for (let before = -1; before < engine.produced; ) {
    before = engine.produced;
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
  expect(engine.produced).toBeLessThan(300);
  const digest = createHash('sha256');
  for (let part = await reader?.read(); part && !part.done; part = await reader?.read())
    digest.update(part.value);
  expect(engine.produced).toBe(3000);
});

test('requests in flight and new ones get a 503 when the host stops, even behind a hung device', async () => {
  const { get, post, engine, stopping } = await serve({ hang: true });
  const request = post(chat, hi);
  const { HttpError } = await import('../../src/http/error.ts');
  await until(() => engine.running === 1);
  stopping.abort(new HttpError(503, 'shutting_down', 'The host is shutting down.'));
  const response = await request;
  expect(response.status).toBe(503);
  expect(openaiError.parse(await response.json()).error.code).toBe('shutting_down');
  expect((await get('/v1/models')).status).toBe(503);
});
