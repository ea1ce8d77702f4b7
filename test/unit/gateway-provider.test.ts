import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type FakeProvider, fakeProvider } from '../support/gateway/provider.ts';
import { recordedBody, recordedFrames } from '../support/gateway/cassettes.ts';
import { framesOf, payloadsOf } from '../support/gateway/frames.ts';
import { openApiDocument, schemaFaults } from '../support/gateway/schemas.ts';
import { describeShared } from '../support/shared.ts';

const full = {
  text: 'Grüße 🌍, and some more text.',
  reasoning: 'I think, therefore.',
  calls: [{ name: 'weather', arguments: { city: 'Köln' } }, { name: 'noArguments' }],
};
const ask = (url: string, body: object, headers: Record<string, string> = {}) =>
  fetch(url, { method: 'POST', body: JSON.stringify(body), headers });

describe('the fake provider', () => {
  let provider: FakeProvider;
  beforeAll(async () => {
    provider = await fakeProvider();
  });
  afterAll(() => provider.close());

  it('keeps what it was asked and answers by the path', async () => {
    provider.script([{ say: { text: 'hi' } }]);
    const chat = await ask(
      `${provider.url}/v1/chat/completions`,
      { model: 'm' },
      { authorization: 'Bearer k' },
    );
    expect(await chat.json()).toMatchObject({ choices: [{ message: { content: 'hi' } }] });
    const google = await ask(
      `${provider.url}/v1beta/models/g:generateContent`,
      {},
      { 'x-goog-api-key': 'g' },
    );
    expect(await google.json()).toMatchObject({ candidates: [{ content: { parts: [{ text: 'hi' }] } }] });
    expect(provider.requests.slice(-2)).toMatchObject([
      { text: '{"model":"m"}', model: 'm', stream: false, key: 'k' },
      { model: 'g', key: 'g' },
    ]);
  });

  it.each([
    ['/v1/chat/completions', { stream: true, stream_options: { include_usage: true } }],
    ['/v1/responses', { stream: true }],
    ['/v1/messages', { stream: true }],
    ['/v1beta/models/m:streamGenerateContent?alt=sse', {}],
  ])('streams on %s, whole through any packets and line ends', async (path, body) => {
    provider.script([{ say: full }]);
    const plain = await (await ask(provider.url + path, body)).text();
    expect(framesOf(plain).length).toBeGreaterThan(5);
    provider.script([{ say: full, split: 7 }]);
    expect(await (await ask(provider.url + path, body)).text()).toBe(plain);
    provider.script([{ say: full, crlf: true }]);
    expect(await (await ask(provider.url + path, body)).text()).toBe(plain.replaceAll('\n', '\r\n'));
    provider.script([{ say: full, cutAfter: 2 }]);
    await expect((await ask(provider.url + path, body)).text()).rejects.toThrow();
    provider.script([{ say: full, endAfter: 2 }]);
    expect(framesOf(await (await ask(provider.url + path, body)).text())).toHaveLength(2);
  });

  it('packs where that is accepted, holds frames back, and hangs up', async () => {
    provider.script([{ say: full, gzip: true }]);
    const url = `${provider.url}/v1/messages`;
    const packed = await ask(url, {});
    expect(packed.headers.get('content-encoding')).toBe('gzip');
    expect(await packed.json()).toMatchObject({ type: 'message' });
    let release = () => {};
    const held = new Promise<void>((resolve) => (release = resolve));
    provider.script([{ say: full, hold: (index) => (index === 1 ? held : undefined) }, { refuse: true }]);
    const stream = await ask(url, { stream: true });
    const reader = stream.body?.getReader();
    const first = await reader?.read();
    expect(framesOf(new TextDecoder().decode(first?.value as Uint8Array))).toHaveLength(1);
    release();
    let ended = false;
    while (!ended) ended = (await reader?.read())?.done ?? true;
    await expect(ask(url, {})).rejects.toThrow();
  });

  it('refuses keys and echoes some of them', async () => {
    const strict = await fakeProvider(undefined, { keys: ['good'] });
    const secret = 'sk-1234567890abcdef';
    const answer = await ask(`${strict.url}/v1/messages`, {}, { 'x-api-key': secret });
    expect(answer.status).toBe(401);
    expect(await answer.text()).toContain(secret.slice(0, 8));
    await strict.close();
  });

  it('counts readers who left', async () => {
    provider.script([{ say: full, stallAfter: 1 }]);
    const control = new AbortController();
    const before = provider.left;
    const answer = await fetch(`${provider.url}/v1/messages`, {
      method: 'POST',
      body: '{"stream":true}',
      signal: control.signal,
    });
    expect(answer.status).toBe(200);
    control.abort();
    await expect.poll(() => provider.left).toBe(before + 1);
    await expect.poll(() => provider.open).toBe(0);
  });
});

describeShared('the fake provider and the published documents', [openApiDocument, 'data/cassettes'], () => {
  let provider: FakeProvider;
  beforeAll(async () => {
    provider = await fakeProvider();
  });
  afterAll(() => provider.close());

  it.each(['chat/completions', 'completions', 'responses', 'embeddings'] as const)(
    'speaks %s as OpenAI publishes it',
    async (path) => {
      const kind = path === 'chat/completions' ? 'chat' : path;
      provider.script([{ say: full }]);
      const request = { model: 'm', input: 'x' };
      const body: unknown = await (await ask(`${provider.url}/v1/${path}`, request)).json();
      expect(schemaFaults(kind, 'body', body)).toEqual([]);
      if (kind === 'embeddings') return;
      const streamed = { ...request, stream: true, stream_options: { include_usage: true } };
      const text = await (await ask(`${provider.url}/v1/${path}`, streamed)).text();
      for (const chunk of payloadsOf(text)) expect(schemaFaults(kind, 'chunk', chunk)).toEqual([]);
    },
  );

  it('replays what was recorded', async () => {
    provider.script([{ cassette: 'google/google-text' }]);
    const url = `${provider.url}/v1beta/models/m:`;
    expect(await (await ask(`${url}generateContent`, {})).text()).toBe(recordedBody('google/google-text'));
    const text = await (await ask(`${url}streamGenerateContent?alt=sse`, {})).text();
    expect(framesOf(text)).toEqual(recordedFrames('google/google-text'));
    provider.script([{ cassette: 'openai/chat-bad-request' }, { cassette: 'google/google-429-retry-info' }]);
    expect((await ask(`${provider.url}/v1/chat/completions`, {})).status).toBe(400);
    expect((await ask(`${url}generateContent`, {})).status).toBe(429);
  });
});
