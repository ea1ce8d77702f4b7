import { beforeAll, expect, test } from 'vitest';
import type { ResponseEvent } from '../../src/wires/responses/answer-schema.ts';
import type { AnswerEvent, HostedItem } from '../../src/wires/core/answer.ts';
import { responsesWire } from '../../src/wires/responses/client.ts';
import { ResponseStore } from '../../src/planes/v1/stored/response-store.ts';
import { Store } from '../../src/store/index.ts';
import { chatEvents } from '../support/chat-events.ts';
import { freshSqlite } from '../support/databases.ts';
import { publishedSchemas } from '../support/published-schemas.ts';
import { readNamedEvents } from '../support/named-events.ts';
import { dataOf, residentAbout } from '../support/resident-about.ts';
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
  const token = { token: 't', logprob: -1, bytes: [116] };
  const likely = [{ ...token, top_logprobs: [token] }];
  const written: AnswerEvent[] = chatEvents([
    { type: 'reasoning', pieces: ['hm'] },
    { type: 'content', pieces: ['a', 'b'] },
    { type: 'call', name: 'weather', pieces: ['{}'] },
  ]);
  const called = { server_label: 'notes', name: 'read', arguments: '{}' };
  const call = { id: 'mcp_1', type: 'mcp_call', ...called, approval_request_id: null } as const;
  const listed = { name: 'read', description: null, input_schema: { type: 'object' }, annotations: null };
  const error = { type: 'mcp_tool_execution_error', content: [{ type: 'text', text: 'y' }] } as const;
  const hostedItems: readonly HostedItem[] = [
    { id: 'mcpl_1', type: 'mcp_list_tools', server_label: 'notes', tools: [listed], error: null },
    { id: 'mcpl_2', type: 'mcp_list_tools', server_label: 'gone', tools: [], error: 'it is being started' },
    { ...call, status: 'in_progress', output: null, error: null },
    { ...call, status: 'completed', output: 'x', error: null },
    { ...call, id: 'mcp_2', status: 'failed', output: null, error, approval_request_id: 'mcpr_p1' },
    { id: 'mcpr_p2', type: 'mcp_approval_request', ...called },
  ];
  /** The published schema has no null there, but OpenAI itself sends it until the answer is made. */
  const withUsage = (event: ResponseEvent | Json): Json => {
    const { response } = event as { response?: Json };
    if (response?.['usage'] !== null) return event;
    const { usage: _, ...rest } = response;
    return { ...event, response: rest };
  };

  test('accept a response of every kind of item, and each event of it', () => {
    const mcpTool = { type: 'mcp', server_label: 'notes', require_approval: 'never' };
    const writer = responsesWire.writer(residentAbout({ ...request, tools: [...tools, mcpTool] }));
    const events = dataOf<ResponseEvent>(
      [...hostedItems.map((item) => ({ type: 'hosted_item', item }) as const), ...written]
        .map((event) => writer.write(event.type === 'text' ? { ...event, logprobs: likely } : event))
        .join('') + writer.end(),
    );
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

  test('accept custom tools, their calls and the events of those', () => {
    const format = { type: 'grammar', syntax: 'regex', definition: 'a+' };
    const custom = [{ type: 'custom', name: 'code', description: 'd', format }];
    const writer = responsesWire.writer(residentAbout({ input: 'hi', tools: custom }));
    const codeCall = chatEvents([{ type: 'call', name: 'code', pieces: ['{"input": "a', 'a"}'] }]);
    const events = dataOf<ResponseEvent>(
      codeCall.map((event) => writer.write(event)).join('') + writer.end(),
    );
    expect(events.map(({ type }) => type)).toContain('response.custom_tool_call_input.done');
    for (const event of events) expect(faults('ResponseStreamEvent', withUsage(event))).toEqual([]);
    expect(faults('Response', (events.at(-1) as { response?: unknown }).response)).toEqual([]);
  });

  test('accept stored responses, their items, counts and shortened conversations', async () => {
    const store = await Store.open({ url: freshSqlite(), endpointId: 'e0' });
    try {
      const responses = new ResponseStore({ store, retentionDays: 30 });
      const { post, get } = await serve({}, 'ready', undefined, [], { responses });
      const input = [
        { role: 'developer', content: 'a' },
        { role: 'user', content: [{ type: 'input_text', text: 'b' }] },
        { role: 'assistant', content: [{ type: 'refusal', refusal: 'c' }] },
        { type: 'reasoning', summary: [{ type: 'summary_text', text: 'd' }] },
        { type: 'function_call', call_id: '1', name: 'f', arguments: '{}' },
        { type: 'function_call_output', call_id: '1', output: [{ type: 'input_text', text: 'e' }] },
        { type: 'custom_tool_call', call_id: '2', name: 'g', input: 'x' },
        { type: 'custom_tool_call_output', call_id: '2', output: 'y' },
      ];
      const first = (await (await post('/v1/responses', { input })).json()) as { id: string };
      const body = { input: 'hi', previous_response_id: first.id };
      const { id } = (await (await post('/v1/responses', body)).json()) as { id: string };
      expect(faults('Response', await (await get(`/v1/responses/${id}`)).json())).toEqual([]);
      const items = (await (await get(`/v1/responses/${id}/input_items`)).json()) as { data: unknown[] };
      expect(items.data).toHaveLength(input.length + 2);
      expect(faults('ResponseItemList', items)).toEqual([]);
      const count = await (await post('/v1/responses/input_tokens', body)).json();
      expect(faults('TokenCountsResource', count)).toEqual([]);
      const compacted = await post('/v1/responses/compact', { model: 'scripted', ...body });
      expect(faults('CompactResource', await compacted.json())).toEqual([]);
    } finally {
      await store.close();
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
