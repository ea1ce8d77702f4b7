import { beforeAll, expect, test } from 'vitest';
import type { ChatEvent } from '../../src/planes/turn/chat.ts';
import { ResponseWriter } from '../../src/planes/v1/responses-events.ts';
import { responseHead } from '../../src/planes/v1/responses-head.ts';
import { responseRequest } from '../../src/planes/v1/responses-request.ts';
import type { ResponseEvent } from '../../src/planes/v1/responses-schema.ts';
import { chatEvents } from '../support/chat-events.ts';
import { publishedSchemas } from '../support/published-schemas.ts';
import { ScriptedEngine } from '../support/scripted-engine.ts';
import { readNamedEvents } from '../support/named-events.ts';
import { scriptedServers } from '../support/serve.ts';
import { describeShared } from '../support/shared.ts';

type Json = Record<string, unknown>;

describeShared("OpenAI's published schemas of responses", ['data/openapi/openai.json'], (file) => {
  const serve = scriptedServers();
  let faults: ReturnType<typeof publishedSchemas>;
  beforeAll(() => {
    faults = publishedSchemas(file);
  });
  const tools = [
    { type: 'function', name: 'weather', description: 'd', parameters: { type: 'object' }, strict: true },
    { type: 'function', name: 'time' },
  ];
  const schema = { type: 'object', properties: {} };
  const request = {
    input: 'hi',
    instructions: 'Be brief.',
    tools,
    tool_choice: { type: 'allowed_tools', mode: 'auto', tools: [{ type: 'function', name: 'time' }] },
    text: { format: { type: 'json_schema', name: 'x', schema, description: 'd' } },
    reasoning: { effort: 'max', summary: 'auto' },
    metadata: { a: 'b' },
    max_output_tokens: 50,
    top_logprobs: 2,
    user: 'me',
    safety_identifier: 's',
    prompt_cache_key: 'k',
  };
  const written: ChatEvent[] = chatEvents([
    { type: 'reasoning', pieces: ['hm'] },
    { type: 'content', pieces: ['a', 'b'] },
    { type: 'call', name: 'weather', pieces: ['{}'] },
  ]);
  /** The published schema has no null there, but OpenAI itself sends it until the answer is made. */
  const withUsage = (event: ResponseEvent | Json): Json => {
    const { response } = event as { response?: Json };
    if (response?.['usage'] !== null) return event;
    const { usage: _, ...rest } = response;
    return { ...event, response: rest };
  };

  test('accept a response of every kind of item, and each event of it', () => {
    const writer = new ResponseWriter(
      responseHead(responseRequest.parse(request), new ScriptedEngine().model),
      () => [
        { token: 't', logprob: -1, bytes: [116], top_logprobs: [{ token: 't', logprob: -1, bytes: [116] }] },
      ],
    );
    const events = written.flatMap((event) => [...writer.take(event)]);
    for (const event of events) expect(faults('ResponseStreamEvent', withUsage(event))).toEqual([]);
    expect(faults('Response', (events.at(-1) as { response?: unknown }).response)).toEqual([]);
  });

  test('accept what the host sends, whole, cut or refused', async () => {
    const { post } = await serve();
    const { tool_choice: _, text: __, ...plain } = request;
    for (const body of [{ input: 'hi' }, plain, { input: 'hi', max_output_tokens: 1 }]) {
      expect(faults('Response', await (await post('/v1/responses', body)).json())).toEqual([]);
    }
    expect(faults('ErrorResponse', await (await post('/v1/responses', {})).json())).toEqual([]);
    for (const { data } of await readNamedEvents(
      await post('/v1/responses', { input: 'hi', stream: true }),
    )) {
      expect(faults('ResponseStreamEvent', withUsage(data))).toEqual([]);
    }
  });

  test('would notice a missing member', async () => {
    const { post } = await serve();
    const body = (await (await post('/v1/responses', { input: 'hi' })).json()) as Json;
    for (const member of ['parallel_tool_calls', 'error', 'incomplete_details']) {
      const { [member]: _, ...rest } = body;
      expect(faults('Response', rest)).not.toEqual([]);
    }
  });
});
