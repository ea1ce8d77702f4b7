import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { GatewayChatModel } from '../../src/agent/gateway-chat-model.ts';
import type { ChatModelEvent, ChatModelRequest } from '../../src/agent/chat-model.ts';

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

/** Events of a model behind this server. */
async function answer(
  listener: RequestListener,
  timeoutMs = 120_000,
  overrides: Partial<ChatModelRequest> = {},
): Promise<ChatModelEvent[]> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closers.push(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const planner = new GatewayChatModel({ url: `http://127.0.0.1:${port}/v1`, timeoutMs }, 'm');
  const request = { messages: [], tools: [], sampling: {}, maxTokens: 10, ...overrides };
  const events: ChatModelEvent[] = [];
  for await (const event of planner.streamAnswer(request, new AbortController().signal)) events.push(event);
  return events;
}

const streams = { 'content-type': 'text/event-stream' };
const done = 'data: {"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n';

describe('a model of a gateway', () => {
  it('does not time out while its gateway sends anything', async () => {
    const queueing: RequestListener = (_, response) => {
      response.writeHead(200, streams);
      let left = 12;
      const wait = setInterval(() => {
        left -= 1;
        if (left > 0) response.write(': in the queue\n\n');
        else {
          clearInterval(wait);
          response.end(done);
        }
      }, 250);
    };
    expect(await answer(queueing, 2500)).toEqual([
      { type: 'delta', text: 'Hi' },
      { type: 'end', finish: 'stop' },
    ]);
    const silent: RequestListener = (_, response) => response.writeHead(200, streams).flushHeaders();
    await expect(answer(silent, 100)).rejects.toMatchObject({ code: 'gateway_timeout' });
  });

  it.each(['application/json', 'text/event-stream'])(
    'is given up where one piece of its answer is larger than any honest one (%s)',
    async (type) => {
      const flood: RequestListener = (_, response) => {
        response.writeHead(200, { 'content-type': type });
        response.write('data: {"choices":[{"delta":{"content":"');
        const more = () => {
          while (!response.destroyed) if (!response.write('x'.repeat(65_536))) return;
        };
        response.on('drain', more);
        more();
      };
      await expect(answer(flood)).rejects.toMatchObject({ code: 'gateway_answer_too_large' });
    },
  );

  it("is called with the wire's names, with every sampling parameter", async () => {
    let body: unknown;
    const listener: RequestListener = (request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        body = JSON.parse(Buffer.concat(chunks).toString());
        response.writeHead(200, streams).end(done);
      });
    };
    const inputSchema = { type: 'object', properties: { at: { type: 'string' } } };
    const sampling = { temperature: 0, top_p: 0.9, top_k: 40, min_p: 0.05, seed: 7 };
    const call = (id: string, args: string) => ({ id, name: 'look', arguments: args });
    await answer(listener, 120_000, {
      messages: [
        { role: 'system', content: 'Look.' },
        { role: 'user', content: 'Go.' },
        { role: 'assistant', content: '', calls: [call('a', ''), call('b', '{"at":"it"}')] },
        { role: 'tool', callId: 'a', name: 'look', content: 'a cat' },
        { role: 'tool', callId: 'b', name: 'look', content: '' },
        { role: 'assistant', content: 'Wait.', calls: [call('c', '{}')] },
        { role: 'tool', callId: 'c', name: 'look', content: 'a dog' },
        { role: 'assistant', content: '', calls: [] },
      ],
      tools: [{ name: 'look', description: 'Looks.', inputSchema }],
      toolChoice: { name: 'look' },
      responseFormat: { type: 'json_schema', schema: { type: 'object' } },
      sampling,
    });
    const written = (id: string, args: string) => ({
      id,
      type: 'function',
      function: { name: 'look', arguments: args },
    });
    expect(body).toEqual({
      model: 'm',
      messages: [
        { role: 'system', content: 'Look.' },
        { role: 'user', content: 'Go.' },
        { role: 'assistant', content: null, tool_calls: [written('a', '{}'), written('b', '{"at":"it"}')] },
        { role: 'tool', tool_call_id: 'a', content: 'a cat' },
        { role: 'tool', tool_call_id: 'b', content: '' },
        { role: 'assistant', content: 'Wait.', tool_calls: [written('c', '{}')] },
        { role: 'tool', tool_call_id: 'c', content: 'a dog' },
        { role: 'assistant', content: '' },
      ],
      tools: [
        { type: 'function', function: { name: 'look', description: 'Looks.', parameters: inputSchema } },
      ],
      tool_choice: { type: 'function', function: { name: 'look' } },
      response_format: { type: 'json_schema', json_schema: { name: 'answer', schema: { type: 'object' } } },
      ...sampling,
      max_tokens: 10,
      stream: true,
      stream_options: { include_usage: true },
    });
  });

  const sends =
    (body: string, type = 'text/event-stream'): RequestListener =>
    (_, response) =>
      response.writeHead(200, { 'content-type': type }).end(body);
  const end = { type: 'end', finish: 'stop' };

  it.each<[string, RequestListener, object[]]>([
    ['noise between chunks', sends(`data: {{\n\ndata: 7\n\n:\n\n${done}`), [end]],
    [
      'a body with a byte order mark',
      sends(
        '\ufeff{"choices":[{"message":{"content":"Hi"},"finish_reason":"eos"}]}',
        'application/json; charset=utf-8',
      ),
      [end],
    ],
    [
      'calls without numbers, pieces without ids',
      sends(
        [
          '{"choices":[{"delta":{"content":"Hi","tool_calls":[{"id":"a","function":{"name":"x","arguments":"{"}}]}}]}',
          '{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"}"}}]}}]}',
          '{"choices":[{"delta":{"tool_calls":[{"id":"b","function":{"name":"y","arguments":{"at":[1]}}}]}}]}',
          '{"choices":[{"finish_reason":"stop"}]}',
        ]
          .map((data) => `data: ${data}\r\n\r\n`)
          .join(''),
      ),
      [
        { type: 'call', call: { id: 'a', name: 'x', arguments: '{}' } },
        { type: 'call', call: { id: 'b', name: 'y', arguments: '{"at":[1]}' } },
        { type: 'end', finish: 'tool_calls' },
      ],
    ],
    [
      'counts that are none',
      sends(`data: {"choices":[],"usage":{"prompt_tokens":1e300,"completion_tokens":1.5}}\n\n${done}`),
      [end],
    ],
    [
      'counts of thoughts beside those of the text',
      sends(
        `${done.split('data: [DONE]')[0]}data: {"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":9,"completion_tokens_details":{"reasoning_tokens":4}}}\n\n`,
      ),
      [{ ...end, usage: { promptTokens: 3, completionTokens: 6 } }],
    ],
    [
      'a refusal in its own member',
      sends('data: {"choices":[{"delta":{"refusal":"Hi"},"finish_reason":"stop"}]}\n\n'),
      [end],
    ],
  ])('may send %s', async (_, listener, events) => {
    expect(await answer(listener)).toEqual([{ type: 'delta', text: 'Hi' }, ...events]);
  });

  it.each<[string, string, string]>([
    ['no reason', 'data: {"choices":[{"delta":{"content":"Hi"}}]}\n\ndata: [DONE]\n\n', 'gateway_broke_off'],
    ['no event', '', 'gateway_broke_off'],
    ['an answer that was given up', 'data: {"choices":[{"finish_reason":"error"}]}\n\n', 'gateway_broke_off'],
    ['an error', 'event: error\ndata: {"message":"no"}\n\n', 'gateway_failed'],
    ['too long a conversation', 'data: {"error":"prompt is too long"}\n\n', 'context_length_exceeded'],
  ])('is incomplete with %s', async (_, body, code) => {
    await expect(answer(sends(body))).rejects.toMatchObject({ code });
  });
});
