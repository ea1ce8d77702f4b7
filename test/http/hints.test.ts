/** Hints never cause a refusal, on any wire; see docs/decisions/openai-anthropic.md, "Hints". */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { wires } from '../support/gateway/asks.ts';
import { gatewayWorld } from '../support/gateway/world.ts';
import { serveScripted } from '../support/serve.ts';

const messages = [{ role: 'user', content: 'Hello' }];

/** Hints of every wire, with valid values; other wires do not know them and ignore them. */
const hints: readonly object[] = [
  ...['low', 'medium', 'high'].map((verbosity) => ({ verbosity })),
  ...['none', 'minimal', 'low', 'high', 'max'].map((effort) => ({ reasoning_effort: effort })),
  ...['auto', 'default', 'flex', 'priority'].map((tier) => ({ service_tier: tier })),
  { store: true },
  { store: false },
  { metadata: { a: 'b' } },
  { user: 'u' },
  { safety_identifier: 's' },
  { prompt_cache_key: 'k' },
  { prompt_cache_retention: '24h' },
];
/** Refused by the gateway, which has no price for it. */
const prediction = { prediction: { type: 'content', content: 'x' } };
const text = ['low', 'medium', 'high'].map((verbosity) => ({ text: { verbosity } }));
const reasoning = ['none', 'low', 'high', 'max'].map((effort) => ({ reasoning: { effort } }));
const anthropic = [
  ...['low', 'medium', 'high', 'max'].map((effort) => ({ output_config: { effort } })),
  { service_tier: 'standard_only' },
  { metadata: { user_id: 'u' } },
  { cache_control: { type: 'ephemeral' } },
  { thinking: { type: 'disabled' } },
];
const llama = [{ cache_prompt: true }, { id_slot: -1 }];
const ollama = [{ keep_alive: '5m' }, { think: false }, { options: { num_thread: 2 } }];

let host: Awaited<ReturnType<typeof serveScripted>>;
let gateway: Awaited<ReturnType<typeof gatewayWorld>>;
beforeAll(async () => {
  // A model without reasoning.
  host = await serveScripted();
  gateway = await gatewayWorld();
  gateway.provider.script(() => ({ say: { text: 'Hello.', usage: { input: 3, output: 2 } } }));
});
afterAll(async () => {
  await host.close();
  await gateway.close();
});

const atHost: readonly (readonly [path: string, body: object, own: readonly object[]])[] = [
  ['/v1/chat/completions', { messages }, reasoning],
  ['/v1/completions', { prompt: 'Hello' }, []],
  ['/v1/responses', { input: 'Hello' }, [...text, ...reasoning]],
  ['/v1/messages', { messages, max_tokens: 4 }, [...anthropic, { thinking: { type: 'adaptive' } }]],
  ['/api/chat', { model: 'scripted', messages, stream: false }, ollama],
  ['/api/generate', { model: 'scripted', prompt: 'Hello', stream: false }, ollama],
  ['/completion', { prompt: 'Hello', n_predict: 4 }, llama],
];

describe.each(atHost)('the host accepts on %s', (path, body, own) => {
  test.each([...hints, prediction, ...own])('%j', async (hint) => {
    const response = await host.post(path, { ...body, ...hint });
    expect([response.status, await response.text()]).toEqual([200, expect.any(String)]);
  });
});

const atGateway = [
  ['chat', 'chat', reasoning],
  ['chat', 'claude', reasoning],
  ['chat', 'gemini', reasoning],
  ['chat', 'responses', reasoning],
  ['responses', 'chat', [...text, ...reasoning]],
  ['responses', 'claude', [...text, ...reasoning]],
  ['responses', 'responses', [...text, ...reasoning]],
  ['completions', 'chat', []],
  ['messages', 'claude', anthropic],
] as const;

describe.each(atGateway)('the gateway accepts on the wire %s for %s', (wire, model, own) => {
  test.each([...hints, ...own])('%j', async (hint) => {
    const customer = await gateway.customer();
    const { path, body } = wires[wire];
    const response = await gateway.ask(path, { customer, body: { ...body(model, false), ...hint } });
    expect([response.status, await response.text()]).toEqual([200, expect.any(String)]);
  });
});

test('an invalid value is refused by name, and the answer reports the applied value', async () => {
  const chat = await host.post('/v1/chat/completions', { messages, verbosity: 'loud' });
  expect(await chat.json()).toMatchObject({ error: { param: 'verbosity', code: 'invalid_value' } });
  const loud = await host.post('/v1/responses', { input: 'Hello', text: { verbosity: 'loud' } });
  expect(await loud.json()).toMatchObject({ error: { param: 'text.verbosity', code: 'invalid_value' } });
  const requestBody = { input: 'Hello', text: { verbosity: 'high' }, store: true, service_tier: 'flex' };
  const done = await host.post('/v1/responses', requestBody);
  expect(await done.json()).toMatchObject({
    text: { verbosity: 'medium' },
    store: false,
    service_tier: 'default',
  });
});

test("a member that the wire's own service refuses is not a hint there", async () => {
  const ollamaChat = await host.post('/api/chat', { model: 'scripted', messages, think: true });
  expect([ollamaChat.status, await ollamaChat.text()]).toEqual([400, expect.stringContaining('think')]);
});
