import OpenAI from 'openai';
import OpenAI6 from 'openai-6';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { WireError } from '../../src/wires/core/error.ts';
import type { AnswerEvent } from '../../src/wires/core/answer.ts';
import { responsesWire } from '../../src/wires/responses/client.ts';
import { aboutOf, clientRequest, receipt } from '../support/gateway-responses.ts';
import { type LocalServer, serve } from '../support/local-server.ts';

const usage = { fresh: 7, cacheWrite: 0, cacheWrite1h: 0, cacheRead: 4, output: 9, reasoning: 5 };
const answer: AnswerEvent[] = [
  { type: 'start' },
  { type: 'reasoning', text: 'Let me' },
  { type: 'reasoning', text: ' see.' },
  { type: 'reasoning_signature', signature: 's1' },
  { type: 'text', text: 'I ' },
  { type: 'text', text: 'look.' },
  { type: 'tool_call', index: 0, id: 'c0', name: 'weather', signature: 'g0' },
  { type: 'tool_arguments', index: 0, text: '{"city":' },
  { type: 'tool_call', index: 1, id: 'c1', name: 'weather' },
  { type: 'tool_arguments', index: 1, text: '{"city":"Ro' },
  { type: 'tool_arguments', index: 0, text: '"Oslo"}' },
  { type: 'tool_arguments', index: 1, text: 'me"}' },
  { type: 'finish', reason: 'tool_calls' },
  { type: 'usage', usage },
];
const fault = new WireError(502, 'upstream_error', 'The provider broke off.', { code: 'upstream_failed' });

/** Answers as the gateway does: `model` says how. */
const answerTo = (body: Record<string, unknown>) => {
  const request = clientRequest(body);
  const about = { ...aboutOf(), request };
  if (body['stream'] !== true) return JSON.stringify(responsesWire.body(answer, about));
  const writer = responsesWire.writer(about);
  if (body['model'] === 'broken')
    return (
      answer
        .slice(0, 6)
        .map((event) => writer.write(event))
        .join('') + writer.fail(fault)
    );
  return answer.map((event) => writer.write(event)).join('') + writer.end(receipt);
};

let server: LocalServer;
beforeAll(async () => {
  server = await serve((incoming, outgoing) => {
    let text = '';
    incoming.on('data', (piece: Buffer) => {
      text += piece.toString();
    });
    incoming.on('end', () => {
      const body = JSON.parse(text) as Record<string, unknown>;
      try {
        const answered = answerTo(body);
        const type = body['stream'] === true ? 'text/event-stream' : 'application/json';
        outgoing.writeHead(200, { 'content-type': type }).end(answered);
      } catch (error) {
        if (!(error instanceof WireError)) throw error;
        outgoing
          .writeHead(error.status, { 'content-type': 'application/json' })
          .end(JSON.stringify(responsesWire.errorBody(error, 'req_1')));
      }
    });
  });
});
afterAll(() => server.close());

const tools = [{ type: 'function' as const, name: 'weather', parameters: { type: 'object' }, strict: false }];
const hi = { model: 'whole', input: 'Weather?', tools };
const clients = {
  7: () => new OpenAI({ baseURL: server.url, apiKey: 'none', maxRetries: 0 }),
  6: () => new OpenAI6({ baseURL: server.url, apiKey: 'none', maxRetries: 0 }) as unknown as OpenAI,
};

describe.each([7, 6] as const)('the official openai client of version %i', (version) => {
  const openai = () => clients[version]();

  test('its helper accumulates the stream to the buffered answer', async () => {
    const buffered = await openai().responses.create(hi);
    const seen: string[] = [];
    const stream = openai().responses.stream(hi);
    stream.on('response.function_call_arguments.delta', ({ output_index: index, snapshot }) => {
      seen[index] = snapshot;
    });
    const streamed = await stream.finalResponse();
    expect(streamed.output_text).toBe('I look.');
    expect(buffered.output_text).toBe('I look.');
    expect(streamed.usage).toEqual(buffered.usage);
    expect(streamed.output.map(({ type }) => type)).toEqual([
      'reasoning',
      'message',
      'reasoning',
      'function_call',
      'function_call',
    ]);
    const calls = streamed.output.filter((item) => item.type === 'function_call');
    expect(calls.map(({ call_id: id, arguments: text }) => [id, text])).toEqual([
      ['c0', '{"city":"Oslo"}'],
      ['c1', '{"city":"Rome"}'],
    ]);
    expect(seen.filter((text) => text !== undefined)).toEqual(['{"city":"Oslo"}', '{"city":"Rome"}']);
  });

  test('the accumulated text is the text, and done items are those of the response', async () => {
    const stream = openai().responses.stream(hi);
    let text = '';
    const done: unknown[] = [];
    stream.on('response.output_text.delta', ({ snapshot }) => {
      text = snapshot;
    });
    stream.on('response.output_item.done', ({ output_index: index, item }) => {
      done[index] = item;
    });
    await stream.done();
    expect(text).toBe('I look.');
    expect((await stream.finalResponse()).output).toMatchObject(done);
  });

  test('a tool loop returns the signatures of other providers', async () => {
    const { output } = await openai().responses.stream(hi).finalResponse();
    const results = ['c0', 'c1'].map((id) => ({
      type: 'function_call_output' as const,
      call_id: id,
      output: 'rain',
    }));
    const body = { model: 'm', input: [{ role: 'user', content: 'Weather?' }, ...output, ...results] };
    const { messages } = responsesWire.conversation(clientRequest(body));
    expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool']);
    expect(messages[1]?.parts).toEqual([
      { type: 'reasoning', text: 'Let me see.', signature: 's1' },
      { type: 'text', text: 'I look.' },
      { type: 'tool_call', id: 'c0', name: 'weather', arguments: '{"city":"Oslo"}', signature: 'g0' },
      { type: 'tool_call', id: 'c1', name: 'weather', arguments: '{"city":"Rome"}' },
    ]);
  });

  test('an error in the middle of a stream is thrown, by both ways of streaming', async () => {
    const broken = { ...hi, model: 'broken' };
    let text = '';
    const read = async () => {
      for await (const event of await openai().responses.create({ ...broken, stream: true }))
        if (event.type === 'response.output_text.delta') text += event.delta;
    };
    await expect(read()).rejects.toThrow(/broke off/);
    expect(text).toBe('I look.');
    await expect(openai().responses.stream(broken).finalResponse()).rejects.toThrow(/broke off/);
  });

  test('a refusal is thrown with its code and the member', async () => {
    await expect(openai().responses.create({ ...hi, previous_response_id: 'resp_1' })).rejects.toMatchObject({
      status: 400,
      code: 'unsupported_parameter',
      param: 'previous_response_id',
    });
  });
});
