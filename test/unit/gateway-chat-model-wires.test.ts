import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { type GatewayEndpoint, GatewayChatModel } from '../../src/agent/gateway-chat-model.ts';
import type { ChatModelEvent, ChatModelMessage, ChatModelRequest } from '../../src/agent/chat-model.ts';
import type { Json } from '../../src/util/json.ts';

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

interface Sent {
  readonly path: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Json;
}
/** One answer of the server: a stream of these events, or a refusal. */
type Reply = readonly (Json | string)[] | { readonly status: number; readonly body: Json };

/** A model behind a server that gives these replies in turn. */
async function serve(replies: readonly Reply[], endpoint: Partial<GatewayEndpoint> = {}, name = 'm') {
  const sent: Sent[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = JSON.parse(Buffer.concat(chunks).toString()) as Json;
      const reply = replies[sent.length] ?? [];
      sent.push({ path: request.url ?? '', headers: request.headers, body });
      if ('status' in reply) {
        response
          .writeHead(reply.status, { 'content-type': 'application/json' })
          .end(JSON.stringify(reply.body));
        return;
      }
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      for (const event of reply) {
        const type =
          typeof event === 'object' && typeof event['type'] === 'string' ? event['type'] : undefined;
        const data = typeof event === 'string' ? event : JSON.stringify(event);
        response.write(`${type === undefined ? '' : `event: ${type}\n`}data: ${data}\n\n`);
      }
      response.end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closers.push(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const model = new GatewayChatModel(
    { url: `http://127.0.0.1:${port}/v1`, key: 'secret', ...endpoint },
    name,
  );
  return { model, sent };
}

const inputSchema = { type: 'object', properties: { at: { type: 'string' } } };
const request = (messages: readonly ChatModelMessage[]): ChatModelRequest => ({
  messages,
  tools: [{ name: 'look', description: 'Looks.', inputSchema }],
  sampling: {},
  maxTokens: 2048,
});
const asked: readonly ChatModelMessage[] = [
  { role: 'system', content: 'Look.' },
  { role: 'user', content: 'Go.' },
];

async function read(
  model: GatewayChatModel,
  messages: readonly ChatModelMessage[],
): Promise<ChatModelEvent[]> {
  const events: ChatModelEvent[] = [];
  for await (const event of model.streamAnswer(request(messages), new AbortController().signal))
    events.push(event);
  return events;
}

/** The conversation after an answer with a call, as the turn loop has it, stored and read. */
function afterCall(events: readonly ChatModelEvent[], id: string): ChatModelMessage[] {
  const text = events.map((event) => (event.type === 'delta' ? event.text : '')).join('');
  const calls = events.flatMap((event) => (event.type === 'call' ? [{ ...event.call, id }] : []));
  const end = events.at(-1);
  const providerData = end?.type === 'end' ? end.providerData : undefined;
  const messages: ChatModelMessage[] = [
    ...asked,
    { role: 'assistant', content: text, calls, ...(providerData ? { providerData } : {}) },
    { role: 'tool', callId: id, name: 'look', content: 'a cat' },
  ];
  return JSON.parse(JSON.stringify(messages)) as ChatModelMessage[];
}

const messagesOf = (sent: Sent | undefined) => (sent?.body['messages'] ?? []) as unknown[];

const chatChunk = (delta: Json, finish?: string): Json => ({
  choices: [{ index: 0, delta, ...(finish === undefined ? {} : { finish_reason: finish }) }],
});
const done = [chatChunk({ content: 'A cat.' }, 'stop'), '[DONE]'];

describe('the chat wire', () => {
  it('gets back the reasoning and the members of calls as the provider sent them', async () => {
    const { model, sent } = await serve([
      [
        chatChunk({ role: 'assistant', reasoning_content: 'I ' }),
        chatChunk({ reasoning_content: 'look.' }),
        chatChunk({ reasoning_details: [{ type: 'reasoning.text', index: 0, text: 'I ', format: 'x-v1' }] }),
        chatChunk({
          reasoning_details: [{ type: 'reasoning.text', index: 0, text: 'look.', signature: 'sig' }],
        }),
        chatChunk({ reasoning_details: [{ type: 'reasoning.encrypted', index: 1, data: 'QUJD' }] }),
        chatChunk({ annotations: [{ type: 'url_citation' }] }),
        chatChunk({
          tool_calls: [
            {
              index: 0,
              id: 'a',
              type: 'function',
              function: { name: 'look', arguments: '' },
              extra_content: { google: { thought_signature: 'c2ln' } },
            },
          ],
        }),
        chatChunk({ tool_calls: [{ index: 0, function: { arguments: '{}' } }] }, 'tool_calls'),
        '[DONE]',
      ],
      done,
    ]);
    const events = await read(model, asked);
    await read(model, afterCall(events, 'other'));
    expect(messagesOf(sent[1])[2]).toEqual({
      role: 'assistant',
      content: null,
      reasoning_content: 'I look.',
      reasoning_details: [
        { type: 'reasoning.text', index: 0, text: 'I look.', format: 'x-v1', signature: 'sig' },
        { type: 'reasoning.encrypted', index: 1, data: 'QUJD' },
      ],
      tool_calls: [
        {
          id: 'other',
          type: 'function',
          function: { name: 'look', arguments: '{}' },
          extra_content: { google: { thought_signature: 'c2ln' } },
        },
      ],
    });
  });

  it('does without them where the server refuses what it sent, and keeps to that', async () => {
    const refusal = {
      status: 400,
      body: { error: { message: "unknown field 'reasoning_content' in messages[2]" } },
    };
    const answer = [
      chatChunk({ reasoning_content: 'Hm.' }),
      chatChunk(
        { tool_calls: [{ index: 0, id: 'a', function: { name: 'look', arguments: '{}' } }] },
        'tool_calls',
      ),
    ];
    const { model, sent } = await serve([answer, refusal, done, done]);
    const messages = afterCall(await read(model, asked), 'a');
    await read(model, messages);
    await read(model, messages);
    const members = sent.slice(1).map(({ body }) => Object.keys((body['messages'] as object[])[2] ?? {}));
    expect(members).toEqual([
      ['role', 'content', 'tool_calls', 'reasoning_content'],
      ['role', 'content', 'tool_calls'],
      ['role', 'content', 'tool_calls'],
    ]);
  });

  it('takes a refusal of something else than what it sent as final', async () => {
    const refusal = { status: 400, body: { error: { message: 'reasoning_effort is not supported' } } };
    const { model, sent } = await serve([refusal, done]);
    await expect(read(model, asked)).rejects.toMatchObject({ code: 'gateway_failed' });
    expect(sent).toHaveLength(1);
  });

  it('does not show the reasoning of one model to another', async () => {
    const { model, sent } = await serve([done], {}, 'other');
    const providerData = { source: 'openai-chat m', members: { reasoning_content: 'Hm.' } };
    await read(model, [...asked, { role: 'assistant', content: 'Hi.', calls: [], providerData }]);
    expect(messagesOf(sent[0])[2]).toEqual({ role: 'assistant', content: 'Hi.' });
  });

  it.each([
    [
      'max_tokens is too large: 2048. This model supports at most 1024 completion tokens, whereas you provided 2048.',
      1024,
    ],
    ['max_tokens: 2048 > 512, which is the maximum allowed number of output tokens for m', 512],
  ])('asks for as many tokens as the model allows: %s', async (message, allowed) => {
    const { model, sent } = await serve([{ status: 400, body: { error: { message } } }, done, done]);
    await read(model, asked);
    await read(model, asked);
    expect(sent.map(({ body }) => body['max_tokens'])).toEqual([2048, allowed, allowed]);
  });

  it('learns several things of one model', async () => {
    const { model, sent } = await serve([
      {
        status: 400,
        body: { error: { message: "'max_tokens' is not supported. Use 'max_completion_tokens'." } },
      },
      { status: 400, body: { error: { message: 'max_completion_tokens is too large: 2048, at most 1000' } } },
      done,
    ]);
    await read(model, asked);
    expect(sent.at(-1)?.body).toMatchObject({ max_completion_tokens: 1000 });
    expect(sent.at(-1)?.body).not.toHaveProperty('max_tokens');
  });

  it('gives up where the refusals do not end', async () => {
    const refusal = (n: number) => ({
      status: 400,
      body: { error: { message: `max_tokens: at most ${1000 - n}` } },
    });
    const { model, sent } = await serve(Array.from({ length: 20 }, (_, n) => refusal(n)));
    await expect(read(model, asked)).rejects.toMatchObject({ code: 'gateway_failed' });
    expect(sent).toHaveLength(4);
  });
});

describe('an image in a result', () => {
  const image = {
    path: '/shot.png',
    mediaType: 'image/png',
    width: 3,
    height: 2,
    sizeBytes: 9,
    digest: 'sha256:1',
    data: 'QUJD',
  };
  const messages: readonly ChatModelMessage[] = [
    ...asked,
    { role: 'assistant', content: '', calls: [{ id: 'a', name: 'look', arguments: '{}' }] },
    { role: 'tool', callId: 'a', name: 'look', content: '[shot.png]', image },
  ];
  const results = (sent: readonly Sent[]) =>
    sent.map(({ body }) =>
      JSON.stringify(body).includes('QUJD')
        ? 'image'
        : ((body['messages'] as Json[])[3]?.['content'] as string),
    );
  const refusal = (status: number, message: string) => ({ status, body: { error: { message } } });
  const inWords = 'An image of 3 x 2 pixels, 9 bytes; this model takes no images.';

  it.each([
    [400, 'Invalid content type. image_url is only supported by certain models.'],
    [400, 'messages[4]: unknown variant `image_url`, expected `text`'],
    [400, 'm is not a multimodal model'],
    [404, 'No endpoints found that support image input'],
    [500, 'image input is not supported - hint: if this is unexpected, you may need to provide the mmproj'],
  ])('is put in words from the refusal of a model on that takes none: %i %s', async (status, message) => {
    const { model, sent } = await serve([refusal(status, message), done, done]);
    await read(model, messages);
    await read(model, messages);
    expect(results(sent)).toEqual(['image', inWords, inWords]);
  });

  it.each([
    [400, 'Could not process image'],
    [400, 'You uploaded an unsupported image. Please make sure your image has one of these formats'],
    [413, 'Request too large'],
  ])('is put in words for one request where the server cannot read it: %i %s', async (status, message) => {
    const { model, sent } = await serve([refusal(status, message), done, refusal(status, message), done]);
    await read(model, messages);
    await read(model, messages);
    const refused = 'An image of 3 x 2 pixels, 9 bytes; the server of the model refused it.';
    expect(results(sent)).toEqual(['image', refused, 'image', refused]);
  });

  it('is no reason to repeat a refusal of something else, or without an image', async () => {
    const other = await serve([refusal(500, 'out of memory'), done]);
    await expect(read(other.model, messages)).rejects.toMatchObject({ code: 'gateway_failed' });
    const none = await serve([refusal(404, 'No endpoints found that support image input'), done]);
    await expect(read(none.model, asked)).rejects.toMatchObject({ code: 'gateway_model_not_found' });
    const always = await serve([
      refusal(400, 'images are not supported'),
      refusal(400, 'images are not supported'),
      done,
    ]);
    await expect(read(always.model, messages)).rejects.toMatchObject({ code: 'gateway_failed' });
    expect([other, none, always].map(({ sent }) => sent.length)).toEqual([1, 1, 2]);
  });
});

it.each([
  ['content_filter', 'content_filter'],
  ['length', 'length'],
  ['stop', 'stop'],
])('an answer that ends with %s says so', async (reason, finish) => {
  const { model } = await serve([[chatChunk({ content: 'A' }, reason), '[DONE]']]);
  expect((await read(model, asked)).at(-1)).toMatchObject({ type: 'end', finish });
});

it('a connection that is lost before the answer is told apart from a server that is not there', async () => {
  const server = createServer((incoming) => incoming.socket.resetAndDestroy());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const model = new GatewayChatModel({ url: `http://127.0.0.1:${port}/v1` }, 'm');
  await expect(read(model, asked)).rejects.toMatchObject({ code: 'gateway_reset' });
  await new Promise((resolve) => server.close(resolve));
  await expect(read(model, asked)).rejects.toMatchObject({ code: 'gateway_unreachable' });
});

describe("Anthropic's wire", () => {
  const start = {
    type: 'message_start',
    message: { id: 'msg_1', role: 'assistant', usage: { input_tokens: 9, output_tokens: 1 } },
  };
  const stop = (reason: string) => [
    { type: 'message_delta', delta: { stop_reason: reason }, usage: { output_tokens: 7 } },
    { type: 'message_stop' },
  ];
  const block = (index: number, content: Json, deltas: readonly Json[]) => [
    { type: 'content_block_start', index, content_block: content },
    ...deltas.map((delta) => ({ type: 'content_block_delta', index, delta })),
    { type: 'content_block_stop', index },
  ];

  it('gets signed thinking back, its key in its own header, and marks what may be cached', async () => {
    const { model, sent } = await serve(
      [
        [
          start,
          ...block(0, { type: 'thinking', thinking: '', signature: '' }, [
            { type: 'thinking_delta', thinking: 'I look.' },
            { type: 'signature_delta', signature: 'c2ln' },
          ]),
          ...block(1, { type: 'redacted_thinking', data: 'QUJD' }, []),
          ...block(2, { type: 'text', text: '' }, [{ type: 'text_delta', text: 'Wait.' }]),
          ...block(3, { type: 'tool_use', id: 'toolu_1', name: 'look', input: {} }, [
            { type: 'input_json_delta', partial_json: '{"at":"it"}' },
          ]),
          ...stop('tool_use'),
        ],
        [
          start,
          ...block(0, { type: 'text', text: '' }, [{ type: 'text_delta', text: 'A cat.' }]),
          ...stop('end_turn'),
        ],
      ],
      { wire: 'anthropic-messages' },
    );
    const events = await read(model, asked);
    expect(events.slice(0, -1)).toEqual([
      { type: 'reasoning', text: 'I look.' },
      { type: 'delta', text: 'Wait.' },
      { type: 'call', call: { id: 'toolu_1', name: 'look', arguments: '{"at":"it"}' } },
    ]);
    expect(events.at(-1)).toMatchObject({
      finish: 'tool_calls',
      usage: { promptTokens: 9, completionTokens: 7 },
    });
    expect((await read(model, afterCall(events, 'toolu_1'))).at(-1)).toMatchObject({ finish: 'stop' });
    const [first, second] = sent;
    expect(first).toMatchObject({
      path: '/v1/messages',
      headers: { 'x-api-key': 'secret', 'anthropic-version': '2023-06-01' },
      body: { model: 'm', max_tokens: 2048, stream: true },
    });
    expect(first?.headers['authorization']).toBeUndefined();
    expect(second?.body['system']).toEqual([
      { type: 'text', text: 'Look.', cache_control: { type: 'ephemeral' } },
    ]);
    expect(messagesOf(second).slice(1)).toEqual([
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'I look.', signature: 'c2ln' },
          { type: 'redacted_thinking', data: 'QUJD' },
          { type: 'text', text: 'Wait.' },
          { type: 'tool_use', id: 'toolu_1', name: 'look', input: { at: 'it' } },
        ],
      },
      {
        role: 'user',
        content: [
          {
            type: 'tool_result',
            tool_use_id: 'toolu_1',
            content: 'a cat',
            cache_control: { type: 'ephemeral' },
          },
        ],
      },
    ]);
  });

  it.each([
    [429, { type: 'error', error: { type: 'rate_limit_error', message: 'slow down' } }, 'gateway_busy'],
    [
      400,
      {
        type: 'error',
        error: { type: 'invalid_request_error', message: 'prompt is too long: 9 tokens > 8 maximum' },
      },
      'context_length_exceeded',
    ],
    [
      401,
      { type: 'error', error: { type: 'authentication_error', message: 'invalid x-api-key' } },
      'gateway_unauthorized',
    ],
  ])('says what went wrong at %i', async (status, body, code) => {
    const { model } = await serve([{ status, body }], { wire: 'anthropic-messages' });
    await expect(read(model, asked)).rejects.toMatchObject({ code });
  });

  it('is an answer broken off where the provider fails within it', async () => {
    const failing = [start, { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }];
    const { model } = await serve([failing], { wire: 'anthropic-messages' });
    await expect(read(model, asked)).rejects.toMatchObject({ code: 'gateway_broke_off' });
  });
});

it("Google's wire gets the signature of a call back, and its key in its own header", async () => {
  const part = (...parts: Json[]) => ({ candidates: [{ content: { role: 'model', parts }, index: 0 }] });
  const end = (text: string) => ({
    candidates: [{ content: { role: 'model', parts: [{ text }] }, finishReason: 'STOP', index: 0 }],
    usageMetadata: { promptTokenCount: 5, candidatesTokenCount: 3, totalTokenCount: 8 },
  });
  const { model, sent } = await serve(
    [
      [
        part({ text: 'I look.', thought: true }),
        part({ functionCall: { name: 'look', args: { at: 'it' } }, thoughtSignature: 'c2ln' }),
        end(''),
      ],
      [end('A cat.')],
    ],
    { wire: 'google' },
    'gemini-3-pro',
  );
  const events = await read(model, asked);
  const [call] = events.flatMap((event) => (event.type === 'call' ? [event.call] : []));
  expect(call).toMatchObject({ name: 'look', arguments: '{"at":"it"}' });
  await read(model, afterCall(events, call?.id ?? ''));
  expect(sent[1]).toMatchObject({
    path: '/v1/models/gemini-3-pro:streamGenerateContent?alt=sse',
    headers: { 'x-goog-api-key': 'secret' },
  });
  const [, answer, result] = (sent[1]?.body['contents'] ?? []) as Json[];
  expect(answer).toMatchObject({
    role: 'model',
    parts: [{ functionCall: { name: 'look', args: { at: 'it' } }, thoughtSignature: 'c2ln' }],
  });
  expect(result).toMatchObject({
    role: 'user',
    parts: [{ functionResponse: { name: 'look', response: { output: 'a cat' } } }],
  });
});

it("OpenAI's Responses wire gets encrypted reasoning back, and models without reasoning are asked without it", async () => {
  const item = (type: string, rest: Json) => ({ type, ...rest });
  const completed = (output: readonly Json[]) =>
    item('response.completed', {
      response: {
        id: 'resp_1',
        status: 'completed',
        output,
        usage: { input_tokens: 5, output_tokens: 3, total_tokens: 8 },
      },
    });
  const reasoning = { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'QUJD' };
  const call = {
    type: 'function_call',
    id: 'fc_1',
    call_id: 'call_1',
    name: 'look',
    arguments: '{}',
    status: 'completed',
  };
  const answer = [
    item('response.created', { response: { id: 'resp_1', status: 'in_progress', output: [] } }),
    item('response.output_item.added', { output_index: 0, item: { ...reasoning, encrypted_content: null } }),
    item('response.output_item.done', { output_index: 0, item: reasoning }),
    item('response.output_item.added', { output_index: 1, item: { ...call, arguments: '' } }),
    item('response.function_call_arguments.delta', { output_index: 1, item_id: 'fc_1', delta: '{}' }),
    item('response.function_call_arguments.done', { output_index: 1, item_id: 'fc_1', arguments: '{}' }),
    item('response.output_item.done', { output_index: 1, item: call }),
    completed([reasoning, call]),
  ];
  const refusal = {
    status: 400,
    body: { error: { message: 'Encrypted content is not supported with this model.' } },
  };
  const { model, sent } = await serve([answer, answer], { wire: 'openai-responses' });
  const events = await read(model, asked);
  await read(model, afterCall(events, 'call_1'));
  expect(sent[0]?.body).toMatchObject({ store: false, include: ['reasoning.encrypted_content'] });
  const input = sent[1]?.body['input'] as Json[];
  expect(input.find(({ type }) => type === 'reasoning')).toMatchObject({
    id: 'rs_1',
    encrypted_content: 'QUJD',
  });
  expect(input.map(({ type, role }) => type ?? role).slice(-3)).toEqual([
    'reasoning',
    'function_call',
    'function_call_output',
  ]);

  const plain = await serve([refusal, answer], { wire: 'openai-responses' });
  await read(plain.model, asked);
  expect(plain.sent[1]?.body).not.toHaveProperty('include');
});

it('what a wire cannot express is told as the reason', async () => {
  const { model, sent } = await serve([], { wire: 'anthropic-messages' });
  const one = { ...request(asked), sampling: { seed: 7 } };
  await expect(model.streamAnswer(one, new AbortController().signal).next()).rejects.toMatchObject({
    message: expect.stringContaining('seed'),
  });
  expect(sent).toEqual([]);
});
