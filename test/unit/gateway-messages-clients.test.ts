import Anthropic from '@anthropic-ai/sdk';
import Anthropic0 from 'anthropic-sdk-0';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WireError } from '../../src/wires/core/error.ts';
import type { AnswerEvent } from '../../src/wires/core/answer.ts';
import { messagesWire } from '../../src/wires/messages/client.ts';
import { messagesPassthrough } from '../../src/wires/messages/passthrough.ts';
import type { AnswerMetadata, SseFrame, StreamReceipt } from '../../src/wires/core/wire.ts';
import { aiSdks } from '../support/ai-sdks.ts';
import { recordedFrames } from '../support/gateway/cassettes.ts';
import { type LocalServer, serve } from '../support/local-server.ts';
import { describeShared } from '../support/shared.ts';

const about = { requestId: 'req_7', model: 'the-model', created: 0 } as AnswerMetadata;
const receipt: StreamReceipt = {
  cost: { total: 12n, components: { fresh: 5n, cache_write: 0n, cache_read: 0n, output: 7n } },
  requestId: 'req_7',
  effectiveModel: 'the-model',
  reason: 'as_requested',
};
const overloaded = new WireError(502, 'upstream_error', 'Overloaded; ask again.', {
  code: 'upstream_failed',
});
const written = (events: readonly AnswerEvent[]) => {
  const writer = messagesWire.writer(about);
  return events.map((event) => writer.write(event)).join('') + writer.end(receipt);
};
const passedOn = (frames: readonly SseFrame[]) => {
  const stream = messagesPassthrough.stream(about);
  return frames.map((frame) => stream.push(frame).text).join('') + stream.end(receipt);
};

const answer: AnswerEvent[] = [
  { type: 'start', id: 'msg_1' },
  { type: 'reasoning', text: 'Two ' },
  { type: 'reasoning', text: 'calls.' },
  { type: 'reasoning_signature', signature: 'sealed' },
  { type: 'encrypted_reasoning', data: 'dark' },
  { type: 'text', text: 'Looking ' },
  { type: 'text', text: 'up.' },
  { type: 'tool_call', index: 0, id: 'toolu_1', name: 'weather' },
  { type: 'tool_arguments', index: 0, text: '{"city":' },
  { type: 'tool_arguments', index: 0, text: '"Rome"}' },
  { type: 'tool_call', index: 1, id: 'toolu_2', name: 'time' },
  { type: 'finish', reason: 'tool_calls' },
  { type: 'usage', usage: { fresh: 10, cacheWrite: 1, cacheWrite1h: 2, cacheRead: 4, output: 20 } },
];
const content = [
  { type: 'thinking', thinking: 'Two calls.', signature: 'sealed' },
  { type: 'redacted_thinking', data: 'dark' },
  { type: 'text', text: 'Looking up.' },
  { type: 'tool_use', id: 'toolu_1', name: 'weather', input: { city: 'Rome' } },
  { type: 'tool_use', id: 'toolu_2', name: 'time', input: {} },
];
const usage = {
  input_tokens: 10,
  cache_creation_input_tokens: 3,
  cache_read_input_tokens: 4,
  output_tokens: 20,
};

let reply: { readonly status?: number; readonly type?: string; readonly body: string };
let server: LocalServer;
const seen: Record<string, string | undefined> = {};
beforeAll(async () => {
  server = await serve((request, response) => {
    seen.version = String(request.headers['anthropic-version']);
    request.resume().on('end', () => {
      response.writeHead(reply.status ?? 200, {
        'content-type': reply.type ?? 'text/event-stream',
        'request-id': 'req_7',
      });
      // In pieces that end anywhere.
      for (let at = 0; at < reply.body.length; at += 37) response.write(reply.body.slice(at, at + 37));
      response.end();
    });
  });
});
afterAll(() => server.close());

const params = {
  model: 'the-model',
  max_tokens: 100,
  messages: [{ role: 'user' as const, content: 'Hi' }],
};
/** Both generations, as far as the tests use them. */
interface Client {
  readonly messages: {
    stream(
      body: typeof params,
    ): AsyncIterable<{ readonly type: string }> & { finalMessage(): Promise<object> };
    create(body: typeof params & { stream?: boolean }): Promise<object>;
  };
}
describe.each(aiSdks)('AI SDK $version with its Anthropic provider', ({ version, sdk, create }) => {
  const ask = () => ({
    model: create({ baseURL: server.url, apiKey: 'key' })('the-model'),
    maxOutputTokens: 100,
    maxRetries: 0,
    prompt: 'Hi',
    tools: Object.fromEntries(
      ['weather', 'time'].map((name) => [name, { inputSchema: sdk.jsonSchema({ type: 'object' }) }]),
    ),
  });
  const calls = [
    { toolName: 'weather', input: { city: 'Rome' } },
    { toolName: 'time', input: {} },
  ];

  it('reads a body and a stream that are made from events, with the same usage', async () => {
    reply = { type: 'application/json', body: JSON.stringify(messagesWire.body(answer, about)) };
    const buffered = await sdk.generateText(ask());
    reply = { body: written(answer) };
    const streamed = sdk.streamText(ask());
    for (const found of [
      buffered,
      {
        text: await streamed.text,
        reasoningText: await streamed.reasoningText,
        toolCalls: await streamed.toolCalls,
        finishReason: await streamed.finishReason,
      },
    ]) {
      expect(found.text).toBe('Looking up.');
      expect(found.reasoningText).toContain('Two calls.');
      expect(found.toolCalls).toMatchObject(calls);
      expect(found.finishReason).toBe('tool-calls');
    }
    const inUse = await streamed.usage;
    expect({ ...inUse, raw: undefined }).toEqual({ ...buffered.usage, raw: undefined });
    if (version === 5)
      expect(inUse).toMatchObject({ inputTokens: 10, cachedInputTokens: 4, outputTokens: 20 });
    else expect(inUse).toMatchObject({ inputTokenDetails: { cacheReadTokens: 4 }, outputTokens: 20 });
  });
});

const clients: readonly [string, string, () => Client][] = [
  ['1', '2026-10-21', () => new Anthropic({ apiKey: 'key', baseURL: server.url, maxRetries: 0 })],
  ['0.137', '2023-06-01', () => new Anthropic0({ apiKey: 'key', baseURL: server.url, maxRetries: 0 })],
];

describe.each(clients)("anthropic's client %s", (_name, version, client) => {
  it('reads a stream that is written from events', async () => {
    reply = { body: written(answer) };
    const message = await client().messages.stream(params).finalMessage();
    expect(message).toMatchObject({
      id: 'msg_1',
      model: 'the-model',
      content,
      stop_reason: 'tool_use',
      usage,
    });
    expect(seen.version).toBe(version);
  });

  it('goes on to the end event by event, past the receipt', async () => {
    reply = { body: written(answer) };
    const types: string[] = [];
    for await (const event of client().messages.stream(params)) types.push(event.type);
    expect(types[0]).toBe('message_start');
    expect(types.filter((type) => type !== 'ping').at(-1)).toBe('message_stop');
  });

  it('reads a body that is made from events', async () => {
    reply = { type: 'application/json', body: JSON.stringify(messagesWire.body(answer, about)) };
    expect(await client().messages.create(params)).toMatchObject({ content, stop_reason: 'tool_use', usage });
  });

  it('throws at an error within the stream, written and passed on', async () => {
    const writer = messagesWire.writer(about);
    const begun = answer.slice(0, 6).map((event) => writer.write(event));
    for (const body of [
      begun.join('') + writer.fail(overloaded),
      messagesPassthrough.stream(about).fail(overloaded),
    ]) {
      reply = { body };
      await expect(client().messages.stream(params).finalMessage()).rejects.toThrow('Overloaded; ask again.');
      await expect(client().messages.stream(params).finalMessage()).rejects.toMatchObject({
        error: { type: 'error', error: { code: 'upstream_failed' }, request_id: 'req_7' },
      });
    }
  });

  it('throws at an error in place of an answer', async () => {
    const body = JSON.stringify(messagesWire.errorBody(overloaded, 'req_7'));
    reply = { status: 402, type: 'application/json', body };
    await expect(client().messages.create(params)).rejects.toMatchObject({
      status: 402,
      requestID: 'req_7',
      error: { error: { type: 'upstream_error' } },
    });
  });

  describeShared('recorded streams that are passed on', ['data/cassettes/anthropic'], () => {
    it.each([
      ['anthropic-clear-thinking.1', ['thinking', 'text']],
      ['anthropic-json-tool.1', ['tool_use']],
      ['anthropic-tool-no-args', ['text', 'tool_use']],
      // The client gives up at a second beginning; it never sees it.
      ['duplicate-message-start', ['text']],
    ])('%s', async (name, types) => {
      reply = { body: passedOn(recordedFrames(`anthropic/${name}`)) };
      const message = (await client().messages.stream(params).finalMessage()) as {
        content: { type: string }[];
        usage: { output_tokens: number };
      };
      expect(message.content.map(({ type }) => type)).toEqual(types);
      expect(message.usage.output_tokens).toBeGreaterThan(0);
    });
  });
});
