import Anthropic from '@anthropic-ai/sdk';
import AnthropicOld from 'anthropic-sdk-0';
import OpenAI from 'openai';
import OpenAIOld from 'openai-6';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type Clients, clientsOf } from '../support/gateway/clients.ts';
import type { ProviderReply } from '../support/gateway/provider.ts';
import { type Customer, gatewayWorld } from '../support/gateway/world.ts';

let world: Awaited<ReturnType<typeof gatewayWorld>>;
let customer: Customer;
let clients: Clients;
/** With the clients' own retries. */
let patient: Clients;

beforeAll(async () => {
  world = await gatewayWorld({ limits: { retries: 0 } });
  customer = await world.customer();
  clients = clientsOf(world.url, customer);
  patient = clientsOf(world.url, customer, 2);
});
afterEach(() => clients.verify());
afterAll(async () => {
  const wrong = [...(await world.witness.faults()), ...world.faults];
  await world.close();
  expect(wrong).toEqual([]);
});

type Thrown = Error & { status?: number; error?: unknown; code?: unknown; param?: unknown; type?: unknown };
const thrownBy = (work: Promise<unknown>): Promise<Thrown> =>
  work.then(
    () => expect.fail('it was done'),
    (error: unknown) => error as Thrown,
  );

const openAiOf = { 'openai 7': OpenAI, 'openai 6': OpenAIOld as unknown as typeof OpenAI };
const anthropicOf = { 'anthropic 1': Anthropic, 'anthropic 0': AnthropicOld as unknown as typeof Anthropic };
type OpenAIVersion = keyof typeof openAiOf;
type AnthropicVersion = keyof typeof anthropicOf;

const messages = [{ role: 'user' as const, content: 'Hi.' }];

type ErrorClass =
  | 'AuthenticationError'
  | 'BadRequestError'
  | 'InternalServerError'
  | 'NotFoundError'
  | 'RateLimitError'
  | 'UnprocessableEntityError';
const tooLong =
  "This model's maximum context length is 100 tokens. However, your messages resulted in 999 tokens.";

/** What the provider answers; what the client throws. */
const failures: readonly (readonly [string, ProviderReply, ErrorClass, number, string | null])[] = [
  ['a bad request', { status: 400, message: 'No such thing.' }, 'BadRequestError', 400, null],
  [
    'too long a request',
    { status: 400, message: tooLong },
    'UnprocessableEntityError',
    422,
    'context_length_exceeded',
  ],
  [
    "the operator's credential",
    { status: 401, message: 'Wrong key {key}.' },
    'InternalServerError',
    502,
    'provider_credential_rejected',
  ],
  ['a model that is gone', { status: 404 }, 'InternalServerError', 502, 'upstream_failed'],
  [
    'its rate',
    { status: 429, headers: { 'retry-after': '7' } },
    'RateLimitError',
    429,
    'rate_limit_exceeded',
  ],
  ['a fault of its own', { status: 500 }, 'InternalServerError', 502, 'upstream_failed'],
  ['being overloaded', { status: 529 }, 'InternalServerError', 502, 'upstream_failed'],
  ['no answer at all', { refuse: true }, 'InternalServerError', 502, 'upstream_failed'],
];

describe.each(['openai 7', 'openai 6'] as const)('what %s throws', (version: OpenAIVersion) => {
  const client = () => clients.openai[version];
  const { APIError, AuthenticationError, NotFoundError, BadRequestError } = openAiOf[version];

  it('for an invalid key', async () => {
    const stranger = clientsOf(world.url, { ...customer, secret: 'lathe_gateway_nobody' }).openai[version];
    for (const work of [
      () => stranger.chat.completions.create({ model: 'chat', messages }),
      () => stranger.responses.create({ model: 'chat', input: 'Hi.', stream: true }),
      () => stranger.models.list(),
    ]) {
      const error = await thrownBy(Promise.resolve(work()));
      expect(error).toBeInstanceOf(AuthenticationError);
      expect(error).toMatchObject({ status: 401, code: 'invalid_api_key' });
    }
  });

  it('for an unknown model', async () => {
    const error = await thrownBy(client().chat.completions.create({ model: 'nobody', messages }));
    expect(error).toBeInstanceOf(NotFoundError);
    expect(error).toMatchObject({ status: 404, code: 'model_not_found', param: 'model' });
  });

  it.each(['chat', 'claude', 'gemini', 'responses'])('for an invalid request, of %s', async (model) => {
    const error = await thrownBy(
      client().chat.completions.create({ model, messages: 'Hi.' as never, max_tokens: -1 }),
    );
    expect(error).toBeInstanceOf(BadRequestError);
    expect(error).toMatchObject({ status: 400, type: 'invalid_request_error' });
    const { violations } = error.error as { violations: { path: string }[] };
    expect(violations.map(({ path }) => path).sort()).toEqual(['max_tokens', 'messages']);
  });

  describe.each(failures)('for %s', (_, reply, name, status, code) => {
    it.each(['chat', 'responses', 'claude', 'gemini'])('at %s', async (model) => {
      world.provider.script([reply]);
      for (const stream of [false, true])
        for (const work of [
          () => client().chat.completions.create({ model, messages, stream }),
          () => client().responses.create({ model, input: 'Hi.', stream }),
        ]) {
          const error = await thrownBy(Promise.resolve(work()));
          expect(error.constructor.name).toBe(name);
          expect(error).toBeInstanceOf(APIError);
          expect(error).toMatchObject({ status, code });
          expect(error.message, 'no part of a key').not.toContain('house');
          // Whatever the provider would like.
          const after = (error as unknown as { headers: Headers }).headers.get('retry-after');
          expect(after).toBe(status === 429 ? '1' : null);
        }
    });
  });

  it.each(['chat', 'copy', 'responses', 'claude', 'gemini'])(
    'for a stream that %s breaks off',
    async (model) => {
      world.provider.script([{ say: { text: 'One two three four five six seven.', piece: 4 }, cutAfter: 7 }]);
      for (const begin of [
        () => client().chat.completions.create({ model, messages, stream: true }),
        () => client().responses.create({ model, input: 'Hi.', stream: true }),
      ]) {
        let pieces = 0;
        const error = await thrownBy(
          begin().then(async (stream) => {
            for await (const _ of stream as AsyncIterable<unknown>) pieces += 1;
          }),
        );
        expect(pieces).toBeGreaterThan(0);
        expect(error).toBeInstanceOf(APIError);
        expect(error.message).toMatch(/again/);
      }
    },
  );

  it('for an error within a stream, with an accumulating helper', async () => {
    world.provider.script([{ say: { text: 'One two three.', piece: 4 }, cutAfter: 4 }]);
    for (const work of [
      () => client().chat.completions.stream({ model: 'claude', messages }).finalChatCompletion(),
      () => client().responses.stream({ model: 'chat', input: 'Hi.' }).finalResponse(),
    ])
      expect((await thrownBy(work())).message).toMatch(/again/);
  });

  // The clients wait for a second here.
  it.runIf(version === 'openai 7')('after as many tries as it has', async () => {
    const before = world.provider.requests.length;
    world.provider.script([
      { status: 429, headers: { 'retry-after-ms': '1' } },
      { status: 500, headers: { 'retry-after-ms': '1' } },
      { say: { text: 'Third.' } },
    ]);
    const { choices } = await patient.openai[version].chat.completions.create({ model: 'chat', messages });
    expect(choices[0]?.message.content).toBe('Third.');
    expect(world.provider.requests.length - before).toBe(3);
    world.provider.script([{ status: 400 }]);
    await thrownBy(patient.openai[version].chat.completions.create({ model: 'chat', messages }));
    expect(world.provider.requests.length - before, 'a bad request is not asked again').toBe(4);
  });

  it.each(['chat', 'claude'])('nothing, and the stream of %s ends, when it is left', async (model) => {
    world.provider.script([{ say: { text: 'word '.repeat(40), piece: 5, usage: { input: 3, output: 40 } } }]);
    const { data, response } = await client()
      .chat.completions.create({ model, messages, stream: true })
      .withResponse();
    for await (const _ of data) break;
    expect(data.controller.signal.aborted).toBe(true);
    const row = await world.witness.row(response.headers.get('x-svc-request-id') ?? '');
    expect(['client_gone', 'completed']).toContain(row.outcome);
    expect(row.cost).toBeGreaterThan(0n);
  });
});

describe.each(['anthropic 1', 'anthropic 0'] as const)('what %s throws', (version: AnthropicVersion) => {
  const client = () => clients.anthropic[version];
  const { APIError, AuthenticationError, NotFoundError, BadRequestError } = anthropicOf[version];
  const ask = { model: 'claude', max_tokens: 100, messages };

  it('for a key that is none, a model that is none, a request that is none', async () => {
    const stranger = clientsOf(world.url, { ...customer, secret: 'lathe_gateway_nobody' }).anthropic[version];
    expect(await thrownBy(stranger.messages.create(ask))).toBeInstanceOf(AuthenticationError);
    const none = await thrownBy(client().messages.create({ ...ask, model: 'nobody' }));
    expect(none).toBeInstanceOf(NotFoundError);
    expect(none).toMatchObject({ error: { type: 'error', request_id: expect.stringMatching(/^req_/) } });
    const wrong = await thrownBy(client().messages.create({ ...ask, messages: 'Hi.' as never }));
    expect(wrong).toBeInstanceOf(BadRequestError);
    const family = await thrownBy(client().messages.create({ ...ask, model: 'chat' }));
    expect(family).toBeInstanceOf(BadRequestError);
    expect(family.message).toContain('wrong_model_family');
  });

  it.each(failures)('for %s', async (_, reply, name, status) => {
    world.provider.script([reply]);
    for (const stream of [false, true]) {
      const error = await thrownBy(client().messages.create({ ...ask, stream }));
      expect(error.constructor.name).toBe(name);
      expect(error).toBeInstanceOf(APIError);
      expect(error.status).toBe(status);
    }
  });

  it('for a stream that breaks off', async () => {
    world.provider.script([{ say: { text: 'One two three four.', piece: 4 }, cutAfter: 6 }]);
    const stream = client().messages.stream(ask);
    let text = '';
    stream.on('text', (piece) => (text += piece));
    const error = await thrownBy(stream.finalMessage());
    expect(error).toBeInstanceOf(APIError);
    expect(text).toContain('One');
  });

  it.runIf(version === 'anthropic 1')('after as many tries as it has', async () => {
    const before = world.provider.requests.length;
    world.provider.script([
      { status: 529, headers: { 'retry-after-ms': '1' } },
      { status: 429, headers: { 'retry-after-ms': '1' } },
      { say: { text: 'Third.' } },
    ]);
    const { content } = await patient.anthropic[version].messages.create(ask);
    expect(content).toEqual([expect.objectContaining({ text: 'Third.' })]);
    expect(world.provider.requests.length - before).toBe(3);
  });
});
