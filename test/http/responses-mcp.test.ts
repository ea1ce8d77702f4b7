import OpenAI from 'openai';
import { afterEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../src/agent/clock.ts';
import { HostedTools } from '../../src/agent/hosted-tools.ts';
import { McpServers } from '../../src/agent/mcp/index.ts';
import { createApp } from '../../src/http/app.ts';
import { hostGuard } from '../../src/http/host-guard.ts';
import { listen } from '../../src/http/listen.ts';
import type { AccessControl } from '../../src/http/route.ts';
import { loopbackAccess } from '../../src/planes/access.ts';
import { createAgentPlane } from '../../src/planes/agent/plane.ts';
import { Resident } from '../../src/planes/resident.ts';
import { v1Plane } from '../../src/planes/v1/routes.ts';
import { ResponseStore } from '../../src/planes/v1/stored/response-store.ts';
import { Store } from '../../src/store/index.ts';
import { noopTracer } from '../../src/tracing/index.ts';
import { responseEvent, responseObject } from '../../src/wires/responses/answer-schema.ts';
import { freshSqlite } from '../support/databases.ts';
import { freshDataDir } from '../support/host.ts';
import { httpConfig, httpServer } from '../support/mcp-servers.ts';
import { storeAt } from '../support/model-store.ts';
import { readNamedEvents } from '../support/named-events.ts';
import { pendingHosts } from '../support/pending-world.ts';
import { ScriptedEngine } from '../support/scripted-engine.ts';
import { ScriptedGrammars } from '../support/scripted-grammars.ts';
import { thinkingTemplate } from '../support/thinking-template.ts';

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean();
});
const pending = pendingHosts();

const toolCall = (name: string, args: object): string =>
  `<tool_call>\n${JSON.stringify({ name, arguments: args })}\n</tool_call>`;
const write = (text: string) =>
  toolCall('mcp_notes_write_note', { name: 'a', text, intent: 'to remember it' });
const read = toolCall('mcp_notes_read_note', { name: 'a' });

/** A host with one MCP server, whose model gives these answers one after the other. */
async function openWorld(
  answers: readonly string[],
  access: AccessControl = loopbackAccess,
  responses?: ResponseStore,
) {
  const remote = await httpServer('streamable');
  cleanups.push(() => remote.close());
  const config = httpConfig(remote.url);
  const pins = new Map<string, string>();
  const servers = new McpServers([{ ...config, pins }], {
    version: '1',
    clock: systemClock,
    onNotice: () => undefined,
  });
  cleanups.push(() => servers.close());
  servers.start();
  const [server] = servers.servers;
  await server?.firstAttempt;
  // As a person does who has reviewed the tool.
  for (const name of ['read_note', 'write_note', 'hang', 'huge'])
    pins.set(name, server?.listedTools.get(name)?.pin ?? '');
  await server?.refresh();
  const tools = { find: (name: string) => servers.tools().find((tool) => tool.name === name) };
  const { changes, acts, routes } = await pending.host(freshSqlite(), { findTool: tools.find });
  const rest = [...answers];
  const engine = new ScriptedEngine({
    chatTemplate: thinkingTemplate,
    contextLength: 20_000,
    answer: () => [rest.shift() ?? 'Nothing is left to say.'],
  });
  const resident = new Resident('loading');
  resident.setReady(engine, { grammars: new ScriptedGrammars() });
  const faults: unknown[] = [];
  const hostedTools = new HostedTools({ servers: servers.servers, changes });
  const app = createApp({
    planes: [
      v1Plane(resident, storeAt(freshDataDir()), { hostedTools, responses }),
      createAgentPlane(routes),
    ],
    access,
    stopSignal: new AbortController().signal,
    onFault: (_, error) => faults.push(error),
    watch: noopTracer,
  });
  const listener = await listen(app, hostGuard('127.0.0.1', []), { host: '127.0.0.1', port: 0 });
  cleanups.push(async () => {
    listener.destroyConnections();
    await listener.close();
  });
  const url = `http://127.0.0.1:${listener.port}`;
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });
  const post = (body: object) =>
    fetch(`${url}/v1/responses`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ input: 'Do it.', ...body }),
    });
  const promptOf = (index: number) => engine.tokenizer.decode(engine.requests[index]?.prompt ?? []);
  return { url, client, post, engine, promptOf, changes, acts, faults, remote, server };
}

const notes = (more: object = {}) => ({ type: 'mcp', server_label: 'notes', ...more }) as const;
const never = notes({ require_approval: 'never' });

describe('MCP servers of the host on the Responses wire', () => {
  it('calls the tools itself and goes on until the answer, in one response', async () => {
    const { post, promptOf, acts, faults } = await openWorld([write('hello'), read, 'It says hello.']);
    const response = await post({ tools: [never] });
    const body = responseObject.parse(await response.json());
    expect(body.output.map(({ type }) => type)).toEqual([
      'mcp_list_tools',
      'mcp_call',
      'mcp_call',
      'message',
    ]);
    const [list, written, noted] = body.output;
    if (list?.type !== 'mcp_list_tools') throw new Error('no list');
    expect(list.tools.map(({ name }) => name)).toContain('read_note');
    expect(written).toMatchObject({
      server_label: 'notes',
      name: 'write_note',
      status: 'completed',
      error: null,
      approval_request_id: null,
    });
    expect(noted).toMatchObject({ name: 'read_note', arguments: '{"name":"a"}', output: 'hello' });
    expect(body.status).toBe('completed');
    // The tokens of all three answers; the outputs were in the prompts.
    expect(body.usage?.output_tokens).toBe(3);
    expect(promptOf(2)).toContain('hello');
    expect(body.tools).toEqual([never]);
    // A call that changed something is in the journal, as the caller's.
    expect((await acts.list(10)).map(({ verb, by, outcome }) => [verb, by, outcome])).toContainEqual([
      'approve',
      'local',
      'applied',
    ]);
    expect(faults).toEqual([]);
  });

  it('streams the items as they come', async () => {
    const { post } = await openWorld([`I look.\n${read}`, 'No such note.']);
    const events = await readNamedEvents(await post({ tools: [never], stream: true }));
    const parsed = events.map(({ data }) => responseEvent.parse(data));
    expect(parsed.map(({ type }) => type).filter((type) => !type.includes('content_part'))).toEqual([
      'response.created',
      'response.in_progress',
      'response.output_item.added',
      'response.mcp_list_tools.in_progress',
      'response.mcp_list_tools.completed',
      'response.output_item.done',
      'response.output_item.added',
      'response.output_text.delta',
      'response.output_text.done',
      'response.output_item.done',
      'response.output_item.added',
      'response.mcp_call.in_progress',
      'response.mcp_call_arguments.done',
      'response.mcp_call.completed',
      'response.output_item.done',
      'response.output_item.added',
      'response.output_text.delta',
      'response.output_text.done',
      'response.output_item.done',
      'response.completed',
    ]);
    const last = responseObject.parse(events.at(-1)?.data['response']);
    const done = parsed.flatMap((event) => (event.type === 'response.output_item.done' ? [event] : []));
    expect(done.map(({ output_index }) => output_index)).toEqual([0, 1, 2, 3]);
    expect(last.output).toEqual(done.map(({ item }) => item));
  });

  it("asks first, through OpenAI's client, and makes an approved call once", async () => {
    const { client, changes, promptOf, engine } = await openWorld([
      write('one'),
      'Written.',
      'Written, as I said.',
      read,
      'It says one.',
    ]);
    const ask = async (input: OpenAI.Responses.ResponseInput, tool: object = notes()) =>
      await client.responses.create({
        model: 'scripted',
        input,
        tools: [tool as OpenAI.Responses.Tool.Mcp],
      });
    const conversation: OpenAI.Responses.ResponseInput = [{ role: 'user', content: 'Write one.' }];
    const first = await ask(conversation);
    const request = first.output.find((item) => item.type === 'mcp_approval_request');
    if (!request) throw new Error('not asked');
    expect(request).toMatchObject({ server_label: 'notes', name: 'write_note' });
    const [staged] = await changes.list();
    expect(request.id).toBe(`mcpr_${staged?.id}`);
    expect(staged).toMatchObject({ agent: 'POST /v1/responses', intent: 'to remember it', risk: 'medium' });
    conversation.push(...(first.output as OpenAI.Responses.ResponseInputItem[]), {
      type: 'mcp_approval_response',
      approval_request_id: request.id,
      approve: true,
    });
    const second = await ask(conversation);
    expect(second.output_text).toBe('Written.');
    expect(second.output[0]).toMatchObject({
      type: 'mcp_call',
      status: 'completed',
      approval_request_id: request.id,
    });
    expect(await changes.list()).toEqual([]);
    expect(promptOf(1)).toContain('wrote name, text');

    // The answer was lost, and the client sends the same again: the call is not made again.
    const again = await ask(conversation);
    expect(again.output_text).toBe('Written, as I said.');
    expect(promptOf(2)).toBe(promptOf(1));

    // The whole conversation goes back: its call has its result, and a call of a tool that only reads asks, too.
    conversation.push(...(second.output as OpenAI.Responses.ResponseInputItem[]), {
      role: 'user',
      content: 'Read it.',
    });
    const third = await ask(conversation);
    const reads = third.output.find((item) => item.type === 'mcp_approval_request');
    expect(reads).toMatchObject({ name: 'read_note', id: expect.stringMatching(/^mcpr_r_\w{32}$/) });
    expect(third.output.some(({ type }) => type === 'mcp_list_tools')).toBe(false);
    conversation.push(...(third.output as OpenAI.Responses.ResponseInputItem[]), {
      type: 'mcp_approval_response',
      approval_request_id: reads?.id ?? '',
      approve: true,
    });
    const fourth = await ask(conversation);
    expect(fourth.output[0]).toMatchObject({ type: 'mcp_call', name: 'read_note', output: 'one' });
    expect(fourth.output_text).toBe('It says one.');
    expect(engine.requests).toHaveLength(5);
  });

  it('continues a stored response with the decision alone, and lists the tools once', async () => {
    const store = await Store.open({ url: freshSqlite(), endpointId: 'e0' });
    cleanups.push(() => store.close());
    const responses = new ResponseStore({ store, retentionDays: 30 });
    const { client, promptOf, changes } = await openWorld(
      [write('one'), 'Written.', read, 'It says one.'],
      loopbackAccess,
      responses,
    );
    const tools = [notes() as OpenAI.Responses.Tool.Mcp];
    let previous_response_id: string | null = null;
    const ask = async (input: OpenAI.Responses.ResponseInput) => {
      const response = await client.responses.create({
        model: 'scripted',
        input,
        tools,
        previous_response_id,
      });
      previous_response_id = response.id;
      return response;
    };
    const decide = async ({ output }: OpenAI.Responses.Response) => {
      const id = output.find(({ type }) => type === 'mcp_approval_request')?.id ?? '';
      return await ask([{ type: 'mcp_approval_response', approval_request_id: id, approve: true }]);
    };
    const first = await ask([{ role: 'user', content: 'Write one.' }]);
    expect(first.output.map(({ type }) => type)).toEqual(['mcp_list_tools', 'mcp_approval_request']);
    const second = await decide(first);
    expect(second.output.map(({ type }) => type)).toEqual(['mcp_call', 'message']);
    expect(await changes.list()).toEqual([]);
    expect(promptOf(1)).toContain('wrote name, text');
    const fourth = await decide(await ask([{ role: 'user', content: 'Read it.' }]));
    expect(fourth.output[0]).toMatchObject({ type: 'mcp_call', name: 'read_note', output: 'one' });
    expect(promptOf(3)).toContain('wrote name, text');
    const items = await client.responses.inputItems.list(fourth.id, { order: 'asc' });
    expect(items.data.map(({ type }) => type)).toEqual([
      'message',
      'mcp_list_tools',
      'mcp_approval_request',
      'mcp_approval_response',
      'mcp_call',
      'message',
      'message',
      'mcp_approval_request',
      'mcp_approval_response',
    ]);
    await client.responses.delete(first.id);
    await expect(client.responses.retrieve(first.id)).rejects.toMatchObject({ status: 404 });
  });

  it('tells the model that a call was declined, with the reason, and does not make it', async () => {
    const { post, changes, promptOf } = await openWorld([write('one'), 'Then not.']);
    const first = responseObject.parse(await (await post({ tools: [notes()] })).json());
    const request = first.output.at(-1);
    const input = [
      { role: 'user', content: 'Write one.' },
      ...first.output,
      {
        type: 'mcp_approval_response',
        approval_request_id: request?.id,
        approve: false,
        reason: 'not today',
      },
    ];
    const second = responseObject.parse(await (await post({ input, tools: [notes()] })).json());
    expect(second.output.map(({ type }) => type)).toEqual(['message']);
    expect(promptOf(1)).toContain('The person declined this call: not today');
    const id = request?.id.replace('mcpr_', '') ?? '';
    expect(await changes.get(id)).toMatchObject({ state: 'discarded' });
    // To approve it afterwards changes nothing.
    const approval = { type: 'mcp_approval_response', approval_request_id: request?.id, approve: true };
    const late = await post({ input: [...first.output, approval], tools: [notes()] });
    expect(responseObject.parse(await late.json()).output[0]).toMatchObject({
      type: 'mcp_call',
      status: 'failed',
      error: { content: [{ text: expect.stringContaining('discarded') }] },
    });
  });

  it('takes the decision that a person made elsewhere, and no other change of the host', async () => {
    const { post, changes } = await openWorld([write('one'), 'Seen.']);
    const first = responseObject.parse(await (await post({ tools: [notes()] })).json());
    const request = first.output.at(-1);
    await changes.approve(request?.id.replace('mcpr_', '') ?? '', 'operator', new AbortController().signal);
    const approve = (id: string | undefined, given = first.output) => ({
      input: [...given, { type: 'mcp_approval_response', approval_request_id: id, approve: true }],
      tools: [notes()],
    });
    const second = responseObject.parse(await (await post(approve(request?.id))).json());
    expect(second.output[0]).toMatchObject({ type: 'mcp_call', status: 'completed' });

    const other = await changes.ask({
      tool: 'approval_gate',
      agent: 'w',
      runId: 'r1',
      step: 's',
      intent: '',
      summary: 'x',
    });
    const forged = { ...request, id: `mcpr_${other.id}` } as (typeof first.output)[number];
    const third = responseObject.parse(await (await post(approve(forged.id, [forged]))).json());
    expect(third.output[1]).toMatchObject({ type: 'mcp_call', status: 'failed' });
    expect(await changes.get(other.id)).toMatchObject({ state: 'staged' });
  });

  it('runs beside functions of the caller, whose calls end the answer', async () => {
    const { post } = await openWorld([`${read}\n${toolCall('mine', {})}`, 'Done.']);
    const mine = { type: 'function', name: 'mine', parameters: { type: 'object' } };
    const first = responseObject.parse(await (await post({ tools: [never, mine] })).json());
    expect(first.output.map(({ type }) => type).toSorted()).toEqual([
      'function_call',
      'mcp_call',
      'mcp_list_tools',
    ]);
    const call = first.output.find(({ type }) => type === 'function_call');
    const output = {
      type: 'function_call_output',
      call_id: (call as { call_id: string }).call_id,
      output: '1',
    };
    const second = await post({
      input: [{ role: 'user', content: 'x' }, ...first.output, output],
      tools: [never, mine],
    });
    expect(responseObject.parse(await second.json()).output.map(({ type }) => type)).toEqual(['message']);
  });

  it('keeps to the limits of calls and tokens, and to the allowed tools', async () => {
    const { post, engine, promptOf } = await openWorld([read, 'Enough.', read, 'x']);
    const limited = await post({ tools: [never], max_tool_calls: 1 });
    const { output, status } = responseObject.parse(await limited.json());
    expect(output.map(({ type }) => type)).toEqual(['mcp_list_tools', 'mcp_call', 'message']);
    expect(status).toBe('completed');
    expect(promptOf(1)).not.toContain('mcp_notes_read_note","description');
    const before = engine.requests.length;
    const short = await post({ tools: [never], max_output_tokens: 1 });
    const cut = responseObject.parse(await short.json());
    expect([cut.status, cut.incomplete_details]).toEqual(['incomplete', { reason: 'max_output_tokens' }]);
    expect(engine.requests.length).toBe(before + 1);
    const only = await post({ tools: [notes({ allowed_tools: ['read_note'] })], tool_choice: 'none' });
    const [list] = responseObject.parse(await only.json()).output;
    expect(list).toMatchObject({ type: 'mcp_list_tools', tools: [{ name: 'read_note' }] });
  });

  it('sends wrong arguments and failures back to the model', async () => {
    const { post, promptOf } = await openWorld([
      toolCall('mcp_notes_read_note', {}),
      toolCall('mcp_notes_refuse', { intent: '' }),
      'I see.',
    ]);
    const { output } = responseObject.parse(await (await post({ tools: [never] })).json());
    expect(output.slice(1)).toMatchObject([
      {
        type: 'mcp_call',
        status: 'failed',
        output: null,
        error: { content: [{ text: expect.stringContaining('name') }] },
      },
      { type: 'mcp_call', status: 'failed', error: { type: 'mcp_tool_execution_error' } },
      { type: 'message' },
    ]);
    expect(promptOf(1)).toContain('nothing was done');
  });

  it('makes no further call for a client that left, and serves the next one', async () => {
    const { url, post, engine, changes, faults } = await openWorld([
      toolCall('mcp_notes_hang', { intent: 'x' }),
      'Served.',
    ]);
    const left = new AbortController();
    const response = await fetch(`${url}/v1/responses`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ input: 'Do it.', tools: [never], stream: true }),
      signal: left.signal,
    });
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = ''; !text.includes('"mcp_call"'); ) text += (await reader?.read())?.value ?? '';
    left.abort();
    const { output } = responseObject.parse(await (await post({})).json());
    expect(output).toMatchObject([{ content: [{ text: 'Served.' }] }]);
    expect(engine.requests).toHaveLength(2);
    expect(await changes.count()).toBe(0);
    expect(faults).toEqual([]);
  });

  it('shortens a huge output, and reports a server that is gone', async () => {
    const { post, promptOf, remote, server } = await openWorld([
      toolCall('mcp_notes_huge', { intent: 'x' }),
      'Long.',
      'Nothing to call.',
    ]);
    const huge = responseObject.parse(await (await post({ tools: [never] })).json());
    expect(huge.output.at(-1)).toMatchObject({ content: [{ text: 'Long.' }] });
    expect(promptOf(1).length).toBeLessThan(100_000);
    await remote.close();
    await expect.poll(() => server?.downReason).toBeDefined();
    const listed = await post({ tools: [never], stream: true });
    const events = await readNamedEvents(listed);
    expect(events.map(({ name }) => name)).toContain('response.mcp_list_tools.failed');
    for (const { data } of events) responseEvent.parse(data);
    expect(events.at(-1)?.data).toMatchObject({
      response: { output: [{ type: 'mcp_list_tools', tools: [], error: server?.downReason }, {}] },
    });
  });

  it('refuses servers that it does not have, other addresses, and tokens without the scope', async () => {
    const { post } = await openWorld([]);
    const refused = await post({
      tools: [
        { type: 'mcp', server_label: 'other', server_url: 'https://example.com', headers: { a: 'b' } },
        { type: 'mcp', server_label: '', require_approval: 'sometimes' },
      ],
    });
    expect(refused.status).toBe(400);
    const text = await refused.text();
    for (const path of ['server_url', 'headers', 'tools.1.server_label', 'tools.1.require_approval'])
      expect(text).toContain(path);
    const unknown = await post({ tools: [{ type: 'mcp', server_label: 'other' }, notes(), notes()] });
    expect(unknown.status).toBe(400);
    expect(await unknown.json()).toMatchObject({
      error: { param: 'tools.0.server_label', message: expect.stringContaining('it has notes') },
    });
    const approval = { type: 'mcp_approval_response', approval_request_id: 'mcpr_p1', approve: true };
    const orphan = await post({ input: [approval] });
    expect(await orphan.json()).toMatchObject({ error: { param: 'input.0.approval_request_id' } });

    const scoped = (scope: readonly string[]): AccessControl => ({
      authorizeGate: (_, caller) => Promise.resolve(caller),
      authenticate: () => Promise.resolve({ by: 'peer:x', isLocal: true, scope }),
      requireRouteScope: () => undefined,
    });
    const infer = await openWorld(['Hi.'], scoped(['infer']));
    expect(await (await infer.post({ tools: [notes()] })).json()).toMatchObject({
      error: { code: 'insufficient_scope', message: expect.stringContaining("'agent'") },
    });
    expect((await infer.post({})).status).toBe(200);
    const agent = await openWorld(['Hi.', 'Hi.'], scoped(['infer', 'agent']));
    expect((await agent.post({ tools: [notes()] })).status).toBe(200);
    for (const body of [{ tools: [never] }, { input: [approval], tools: [notes()] }])
      expect(await (await agent.post(body)).json()).toMatchObject({
        error: { code: 'insufficient_scope', message: expect.stringContaining("'approve'") },
      });
  });
});
