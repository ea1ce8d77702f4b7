import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openaiError } from '../../src/planes/error-schema.ts';
import { responseEvent, responseObject } from '../../src/wires/responses/answer-schema.ts';
import { compactedConversation } from '../../src/wires/responses/resource-schema.ts';
import { buildHost, type HostProcess, startHost } from '../support/host.ts';
import { readNamedEvents } from '../support/named-events.ts';
import { connectSocket } from '../support/socket-turns.ts';

// What the compliance suite of the Open Responses specification (2026-04-24) asks of a server, against the built host with
// the embedded model. docs/compatibility.md has the result of the suite itself.
let host: HostProcess;
let url = '';
beforeAll(async () => {
  buildHost();
  host = startHost(['--gpu', '--port', '0', '--store-responses']);
  url = await host.url();
});
afterAll(() => host?.end());

/** Members that every response has, null or not. */
const requiredMembers =
  `id object created_at completed_at status incomplete_details model previous_response_id instructions output error tools
  tool_choice truncation parallel_tool_calls text top_p presence_penalty frequency_penalty top_logprobs temperature reasoning
  usage max_output_tokens max_tool_calls store background service_tier metadata safety_identifier prompt_cache_key`.split(
    /\s+/,
  );
const model = 'lathe-tiny';
const settings = { model, temperature: 0, max_output_tokens: 60 };
const message = (role: string, content: string, more: object = {}) => ({
  type: 'message',
  role,
  content,
  ...more,
});
const user = (content: string) => message('user', content);

const post = (path: string, body: object) =>
  fetch(url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: 'Bearer none' },
    body: JSON.stringify(body),
  });
const check = (body: unknown) => {
  const response = responseObject.strict().parse(body);
  expect(requiredMembers.filter((member) => !(member in response))).toEqual([]);
  expect(response.output.length).toBeGreaterThan(0);
  expect(['completed', 'incomplete']).toContain(response.status);
  return response;
};
const answer = async (body: object) =>
  check(await (await post('/v1/responses', { ...settings, ...body })).json());
const weather = {
  type: 'function',
  name: 'get_weather',
  description: 'Get the current weather for a location',
  parameters: { type: 'object', properties: { location: { type: 'string' } }, required: ['location'] },
};

describe('over HTTP', () => {
  test('a text, a system prompt, several turns, and phases of the assistant', async () => {
    for (const input of [
      [user('Say hello in exactly 3 words.')],
      [message('system', 'You are a pirate.'), user('Say hello.')],
      [user('My name is Alice.'), message('assistant', 'Hello Alice!'), user('What is my name?')],
      [
        message('assistant', 'I should answer with the number.', { phase: 'commentary' }),
        message('assistant', 'The number is four.', { phase: 'final_answer' }),
        user('Repeat only the number.'),
      ],
    ])
      await answer({ input });
  });

  test('a stream of events that ends with the response', async () => {
    const response = await post('/v1/responses', {
      ...settings,
      input: [user('Count from 1 to 5.')],
      stream: true,
    });
    expect(response.headers.get('content-type')).toContain('text/event-stream');
    const events = await readNamedEvents(response);
    for (const { name, data } of events) expect(responseEvent.parse(data).type).toBe(name);
    check(events.at(-1)?.data['response']);
  });

  test('a function call, and its output by the id of the response', async () => {
    const first = await answer({
      input: [user("What's the weather like in San Francisco?")],
      tools: [weather],
      tool_choice: 'required',
    });
    const call = first.output.find(({ type }) => type === 'function_call');
    if (call?.type !== 'function_call') throw new Error('no call');
    expect(JSON.parse(call.arguments)).toHaveProperty('location');
    const output = { type: 'function_call_output', call_id: call.call_id, output: '64 degrees and clear' };
    const second = await answer({ input: [output], tools: [weather], previous_response_id: first.id });
    expect(second.previous_response_id).toBe(first.id);
  });

  test('a custom tool is bound to its grammar by the real engine', async () => {
    for (const [syntax, definition] of [
      ['regex', '[0-9]{4}-[0-9]{2}-[0-9]{2}'],
      ['lark', 'start: YEAR "-" TWO "-" TWO\nYEAR: /[0-9]/~4\nTWO: DIGIT~2\n%import common.DIGIT'],
    ]) {
      const { output } = await answer({
        input: [user('Which day is it?')],
        tools: [{ type: 'custom', name: 'day', format: { type: 'grammar', syntax, definition } }],
        tool_choice: 'required',
      });
      const call = output.find(({ type }) => type === 'custom_tool_call');
      expect(call).toMatchObject({ status: 'completed', input: expect.stringMatching(/^\d{4}-\d\d-\d\d$/) });
    }
  });

  test('an image is refused in words, because the model reads none', async () => {
    const content = [{ type: 'input_image', image_url: 'data:image/png;base64,iVBORw0KGgo=' }];
    const response = await post('/v1/responses', {
      model,
      input: [{ type: 'message', role: 'user', content }],
    });
    expect(response.status).toBe(400);
    expect(openaiError.parse(await response.json()).error.message).toContain('input_image');
  });

  test('a conversation is compacted, and a request without a model is refused', async () => {
    const input = [
      user('We agreed to launch on Tuesday and notify support first.'),
      message('assistant', 'Understood. The launch is Tuesday, with support notified beforehand.'),
    ];
    const body = { model, input, prompt_cache_key: 'k' };
    const compacted = compactedConversation.parse(await (await post('/v1/responses/compact', body)).json());
    expect(compacted.output.map(({ type }) => type)).toEqual(['message', 'compaction']);
    const refused = await post('/v1/responses/compact', { input });
    expect(refused.status).toBe(400);
  });
});

describe('over a WebSocket', () => {
  const connect = async () => {
    const { ask, socket, messages } = await connectSocket(url);
    const complete = async (body: object) => check((await ask({ ...settings, ...body }))['response']);
    const codeOf = async (body: object) => {
      const { type, status, error } = await ask({ ...settings, ...body });
      return { type, status, code: (error as { code?: string } | undefined)?.code };
    };
    return { complete, codeOf, messages, close: () => socket.close() };
  };
  const missing = { type: 'error', status: 400, code: 'previous_response_not_found' };

  test('turns one after the other, and a continuation that is not stored', async () => {
    const { complete, messages, close } = await connect();
    const { id } = await complete({ input: 'Remember the code word: cobalt. Reply with OK.', store: false });
    const second = await complete({
      input: 'What is the code word?',
      store: false,
      previous_response_id: id,
    });
    expect(second).toMatchObject({ previous_response_id: id, store: false });
    for (const event of messages) responseEvent.parse(event);
    close();
  });

  test('after a new connection, or a turn that failed, what was not stored is not found', async () => {
    const first = await connect();
    const { id } = await first.complete({ input: 'Remember: copper. Reply with OK.', store: false });
    const output = { type: 'function_call_output', call_id: 'call_missing', output: 'x' };
    const failed = await first.codeOf({ input: [output], store: false, previous_response_id: id });
    expect(failed).toMatchObject({ type: 'error', status: 400 });
    expect(await first.codeOf({ input: 'x', store: false, previous_response_id: id })).toEqual(missing);
    const second = await connect();
    expect(await second.codeOf({ input: 'x', store: false, previous_response_id: id })).toEqual(missing);
    await second.complete({ input: [user('Reply with exactly: recovered')], store: false });
    first.close();
    second.close();
  });

  test('a compacted conversation begins a new chain', async () => {
    const input = [
      message('user', 'Remember the compaction code word: slate.'),
      message('assistant', 'OK.'),
      message('user', 'Compress this conversation for later continuation.'),
    ];
    const compacted = await (await post('/v1/responses/compact', { model, input })).json();
    const { output } = compactedConversation.parse(compacted);
    const { complete, close } = await connect();
    await complete({ input: [...output, user('Continue from here.')], store: false, tools: [] });
    close();
  });
});
