import { afterEach, describe, expect, test } from 'vitest';
import { systemClock } from '../../src/agent/clock.ts';
import { AgentError } from '../../src/agent/errors.ts';
import { type McpServerConfig, McpServers } from '../../src/agent/mcp/index.ts';
import type { ChangeTool, Proposal, ReadTool, Tool, ToolContext } from '../../src/agent/tool.ts';
import { childConfig, httpConfig, httpServer, isAlive } from '../support/mcp-servers.ts';

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean();
});

/** Servers are looked at only by tests that say so. */
const timings = {
  minRetryDelayMs: 50,
  maxRetryDelayMs: 200,
  checkIntervalMs: 1_000_000,
  minListIntervalMs: 10,
};
const watching = { ...timings, checkIntervalMs: 100 };

/** Servers that are started, and known to be up or down. */
async function started(...configs: McpServerConfig[]) {
  return await startedWith(timings, ...configs);
}
async function startedWith(times: typeof timings, ...configs: McpServerConfig[]) {
  const notices: string[] = [];
  const servers = new McpServers(configs, {
    version: '1',
    clock: systemClock,
    onNotice: (notice) => notices.push(notice),
    timings: times,
  });
  cleanups.push(() => servers.close());
  servers.start();
  await Promise.all(servers.servers.map(({ firstAttempt: settled }) => settled));
  return { servers, notices };
}

function named(servers: McpServers, name: string): Tool {
  const tool = servers.tools().find((one) => one.name === name);
  if (!tool)
    throw new Error(
      `no ${name} among ${servers
        .tools()
        .map((one) => one.name)
        .join(', ')}`,
    );
  return tool;
}
function reading(servers: McpServers, name: string): ReadTool {
  const tool = named(servers, name);
  if (tool.kind !== 'read') throw new Error(`${name} is gated: ${tool.gatedReason}`);
  return tool;
}
function changing(servers: McpServers, name: string): ChangeTool {
  const tool = named(servers, name);
  if (tool.kind !== 'change') throw new Error(`${name} is no change`);
  return tool;
}

const grants = { tools: ['*'], read: [], write: [], network: [], auto_approve: [] };
const context = (signal = new AbortController().signal): ToolContext => ({
  agent: 'a',
  grants,
  cwd: undefined,
  signal,
});
const never = new AbortController().signal;

async function proposed(tool: ChangeTool, args: Record<string, unknown>): Promise<Proposal> {
  const proposal = await tool.propose(args, context());
  if ('ok' in proposal) throw new Error(proposal.output);
  return proposal;
}
/** Calls a gated tool as if a person had approved it. */
async function applied(tool: ChangeTool, args: Record<string, unknown> = {}) {
  return await tool.apply((await proposed(tool, { ...args, intent: 'test' })).payload, never);
}
async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 10));
}
const pinsOf = (servers: McpServers, ...names: string[]) =>
  Object.fromEntries(names.map((name) => [name, servers.servers[0]?.listedTools.get(name)?.pin ?? '']));

describe.each(['stdio', 'streamable HTTP', 'SSE'] as const)('a server over %s', (kind) => {
  async function config(pins: Record<string, string> = {}): Promise<McpServerConfig> {
    if (kind === 'stdio') return childConfig('serve', { pins });
    const server = await httpServer(kind === 'SSE' ? 'sse' : 'streamable', { token: 'secret' });
    cleanups.push(() => server.close());
    return httpConfig(server.url, { pins, headers: { Authorization: 'Bearer secret' } });
  }

  test('lists all pages under host names; unpinned tools are gated, with the reason and the pin', async () => {
    const { servers, notices } = await started(await config());
    expect(servers.tools().map(({ name }) => name)).toEqual(
      expect.arrayContaining(['mcp_notes_read_note', 'mcp_notes_write_note', 'mcp_notes_start_child']),
    );
    expect(servers.tools()).toHaveLength(13);
    for (const tool of servers.tools()) {
      expect(tool).toMatchObject({ kind: 'change', source: 'mcp:notes' });
      expect(tool.name).toMatch(/^[a-zA-Z0-9_-]{1,64}$/);
      expect(tool.pin).toMatch(/^sha256:[0-9a-f]{64}$/);
      expect(tool.unavailable?.()).toBeUndefined();
      expect((tool as ChangeTool).gatedReason).toContain(`= "${tool.pin}" to [mcp.notes.pins]`);
    }
    expect(notices).toEqual(["MCP server 'notes': connected, 13 tools"]);
  });

  test('a pinned read-only tool runs at once; one that writes is staged and applied as shown', async () => {
    const first = await started(await config());
    const pins = pinsOf(first.servers, 'read_note', 'write_note');
    const { servers } = await started(await config(pins));
    const write = changing(servers, 'mcp_notes_write_note');
    expect(write.gatedReason).toBeUndefined();
    expect(write.inputSchema).toMatchObject({
      required: ['name', 'text', 'intent'],
      additionalProperties: false,
    });
    const proposal = await proposed(write, { name: 'a', text: 'b\u202ec', intent: 'to\n keep\u202e it' });
    expect(proposal).toEqual({
      kind: 'tool_call',
      intent: 'to keep it',
      summary: `call "write_note" of the MCP server 'notes' with {\n  "name": "a",\n  "text": "b\\u202ec"\n}`,
      risk: 'medium',
      payload: {
        server: 'notes',
        tool: 'write_note',
        arguments: { name: 'a', text: 'b\u202ec' },
        pin: pins['write_note'],
      },
    });
    const payload: unknown = JSON.parse(JSON.stringify(proposal.payload));
    expect(await write.apply(payload, never)).toEqual({
      ok: true,
      output: 'wrote name, text',
      truncated: false,
    });
    const read = reading(servers, 'mcp_notes_read_note');
    expect(read.inputSchema).not.toHaveProperty('properties.intent');
    expect(await read.run({ name: 'a' }, context())).toEqual({
      ok: true,
      output: 'b\u202ec',
      truncated: false,
    });
  });

  test('a changed description makes a pinned tool unavailable, and a staged call a conflict', async () => {
    const first = await started(await config());
    const pins = pinsOf(first.servers, 'read_note');
    const { servers } = await started(await config(pins));
    const read = reading(servers, 'mcp_notes_read_note');
    const other = changing(first.servers, 'mcp_notes_read_note');
    const staged = await proposed(other, { name: 'a', intent: '' });
    for (const { servers: one } of [{ servers }, first]) {
      const change = changing(one, `mcp_notes_change_description_${mark}`);
      expect(await applied(change, { to: 'Reads a note, and tells everybody.' })).toMatchObject({ ok: true });
    }
    await until(() => named(servers, 'mcp_notes_read_note').kind === 'change');
    const now = changing(servers, 'mcp_notes_read_note');
    const why = now.unavailable?.() ?? '';
    expect(why).toContain(`it was ${pins['read_note']} and is ${now.pin}`);
    expect(why).toContain('mcp pins notes');
    expect(now.pin).not.toBe(pins['read_note']);
    // The old tool object can no longer be called.
    expect(read.unavailable?.()).toBe(why);
    expect(await read.run({ name: 'a' }, context())).toEqual({ ok: false, output: why, truncated: false });
    expect(await now.propose({ name: 'a' }, context())).toEqual({ ok: false, output: why, truncated: false });
    // The call was staged for the old version of the unpinned tool.
    await until(() => named(first.servers, 'mcp_notes_read_note').pin === now.pin);
    const refused = changing(first.servers, 'mcp_notes_read_note').apply(staged.payload, never);
    await expect(refused).rejects.toMatchObject({ kind: 'conflict', code: 'base_moved' });
  });

  test('every kind of result becomes text, up to a limit', async () => {
    const { servers } = await started(await config());
    expect((await applied(changing(servers, 'mcp_notes_shapes'))).output).toBe(
      'one\n[image, image/png, 3 bytes, not shown]\n[resource, note://a]\ntwo\n[resource, note://b, x/y, 6 bytes, not shown]\n[link, note://c]',
    );
    expect(await applied(changing(servers, 'mcp_notes_structured'))).toMatchObject({
      output: '{"answer":42}',
    });
    expect(await applied(changing(servers, 'mcp_notes_refuse'))).toMatchObject({
      ok: false,
      output: 'I will not',
    });
    const long = await applied(changing(servers, 'mcp_notes_long'));
    expect([long.output.length, long.truncated]).toEqual([65_536, true]);
  });

  test('a hanging call ends with its task or by its timeout; the server stays connected', async () => {
    const base = await config();
    // A program takes its time to start on a slow machine.
    const limitSecs = kind === 'stdio' ? 5 : 3;
    const { servers } = await started({ ...base, timeoutMs: limitSecs * 1000 });
    const hang = changing(servers, 'mcp_notes_hang');
    const { payload } = await proposed(hang, {});
    const controller = new AbortController();
    const call = hang.apply(payload, controller.signal);
    controller.abort(new Error('enough'));
    await expect(call).rejects.toThrow('enough');
    const late = await hang.apply(payload, never);
    expect(late.ok).toBe(false);
    expect(late.output).toContain(
      `it did not answer within ${limitSecs} s. Whether it was done is not known.`,
    );
    expect(await applied(changing(servers, 'mcp_notes_structured'))).toMatchObject({ ok: true });
  });

  test('one that answers gigabytes is disconnected, and connected again', async () => {
    const { servers, notices } = await started(await config());
    const huge = await applied(changing(servers, 'mcp_notes_huge'));
    expect(huge.ok).toBe(false);
    expect(huge.output).toContain('it sent a message of more than 8388608 bytes');
    await until(() => notices.filter((notice) => notice.includes('connected')).length === 2);
    expect(await applied(changing(servers, 'mcp_notes_structured'))).toMatchObject({ ok: true });
  });
});

/** Tool name with a part of the hash of `change.description`, which is not a valid name for agents. */
const mark = '4db7ce7a';

describe('a server over stdio', () => {
  test('gets only the configured environment, and ends with the host, including its child processes', async () => {
    const { servers } = await started(childConfig('stubborn', { env: { GIVEN: '1' } }));
    const { pid, env } = JSON.parse((await applied(changing(servers, 'mcp_notes_facts'))).output) as {
      pid: number;
      env: Record<string, string>;
    };
    expect(Object.keys(env).sort()).toEqual(['GIVEN', 'PATH']);
    const grandchild = Number((await applied(changing(servers, 'mcp_notes_start_child'))).output);
    expect([await isAlive(pid), await isAlive(grandchild)]).toEqual([true, true]);
    await servers.close();
    await until(async () => !(await isAlive(pid)) && !(await isAlive(grandchild)));
    expect(changing(servers, 'mcp_notes_facts').unavailable?.()).toContain('the host is shutting down');
  });

  test('one that dies is unavailable with its last line of stderr without secrets, and is started again', async () => {
    const { servers, notices } = await started(childConfig('serve', { env: { TOKEN: 'hunter2' } }));
    const exit = changing(servers, 'mcp_notes_exit');
    const output = (await applied(exit)).output;
    expect(output).toContain(
      'it ended (exit code 3): I was told to go, ***. Whether it was done is not known.',
    );
    await until(() => notices.filter((notice) => notice.includes('connected')).length === 2);
    expect(notices[1]).toBe("MCP server 'notes': it ended (exit code 3): I was told to go, ***; retrying");
    expect(exit.unavailable?.()).toBeUndefined();
    expect(await applied(changing(servers, 'mcp_notes_structured'))).toMatchObject({ ok: true });
  });

  test('one that floods the host is ended and started again', async () => {
    const { servers, notices } = await started(childConfig('serve'));
    const output = (await applied(changing(servers, 'mcp_notes_flood'))).output;
    expect(output).toContain('it floods the host with messages');
    await until(() => notices.filter((notice) => notice.includes('connected')).length === 2);
  });

  test('resources and prompts of a server are tools that only read, pinned like others', async () => {
    const names = ['list_resources', 'read_resource', 'list_prompts', 'get_prompt'];
    const { servers: unpinned } = await started(childConfig('resources'));
    expect(unpinned.tools().map(({ name, kind }) => [name, kind])).toEqual(
      names.map((name) => [`mcp_notes_${name}`, 'change']),
    );
    const { servers } = await started(childConfig('resources', { pins: pinsOf(unpinned, ...names) }));
    const run = (name: string, args = {}) => reading(servers, `mcp_notes_${name}`).run(args, context());
    expect((await run('list_resources')).output).toContain('"uri":"note://a"');
    expect(await run('read_resource', { uri: 'note://a' })).toMatchObject({
      ok: true,
      output: expect.stringContaining('buy milk'),
    });
    expect((await run('list_prompts')).output).toContain('"name":"review"');
    expect((await run('get_prompt', { name: 'review', arguments: { file: 'a.ts' } })).output).toBe(
      'user:\nReview a.ts.',
    );
    const missing = await run('read_resource', { uri: 'note://b' }).catch((error: unknown) => error);
    expect(JSON.stringify(missing) + String(missing)).toContain('there is no such note');
  });

  test('a greeting on its output does no harm', async () => {
    const { servers } = await started(childConfig('greet'));
    expect(servers.tools()).toHaveLength(13);
  });

  test.each([
    ['die', 'it ended (exit code 3): no database at /x'],
    ['garbage', 'it prints text that is not a protocol message to its standard output'],
    ['endless', 'it sent a message of more than 8388608 bytes'],
    ['silent', 'it did not answer within 1 s'],
  ])(
    '%s: its pinned tools stay listed as unavailable with the reason, and the connection is retried',
    async (mode, why) => {
      const pin = `sha256:${'0'.repeat(64)}`;
      const { servers, notices } = await started(
        childConfig(mode, { pins: { read_note: pin }, timeoutMs: mode === 'silent' ? 1000 : 120_000 }),
      );
      expect(servers.tools()).toHaveLength(1);
      const tool = changing(servers, 'mcp_notes_read_note');
      expect(tool.pin).toBe(pin);
      expect(tool.unavailable?.()).toBe(`The MCP server 'notes' cannot be used at the moment: ${why}.`);
      expect(await tool.propose({}, context())).toMatchObject({ ok: false });
      const staged = { server: 'notes', tool: 'read_note', arguments: {}, pin };
      const refused = await tool.apply(staged, never).catch((error: unknown) => error);
      expect(refused).toBeInstanceOf(AgentError);
      expect(refused).toMatchObject({ kind: 'unavailable', code: 'tool_unavailable' });
      expect(notices).toEqual([`MCP server 'notes': ${why}; retrying`]);
    },
  );

  test('a missing program is reported', async () => {
    const config = childConfig('serve');
    const transport = {
      kind: 'stdio',
      program: 'no-such-program',
      args: [],
      inherited: {},
      env: {},
      cwd: '/',
    } as const;
    const { servers } = await started({ ...config, transport });
    expect(servers.servers[0]?.downReason).toBe('there is no program no-such-program, or no folder /');
  });

  test('closing while a server is starting leaves no process behind', async () => {
    const servers = new McpServers([childConfig('silent')], {
      version: '1',
      clock: systemClock,
      onNotice: () => undefined,
      timings,
    });
    servers.start();
    await new Promise((resolve) => setTimeout(resolve, 300));
    await servers.close();
    const { execFileSync } = await import('node:child_process');
    expect(execFileSync('ps', ['-o', 'args=', '--ppid', String(process.pid)]).toString()).not.toContain(
      'silent',
    );
  });

  test('a tool that is pinned but gone is unavailable', async () => {
    const pin = `sha256:${'0'.repeat(64)}`;
    const { servers } = await started(childConfig('serve', { pins: { lost: pin } }));
    expect(changing(servers, 'mcp_notes_lost').unavailable?.()).toBe(
      "The MCP server 'notes' has no tool 'lost' (any more).",
    );
  });
});

test('a tool that changes without notice is detected when a call is applied, and at the next check', async () => {
  const { servers } = await started(childConfig('serve'));
  const read = changing(servers, 'mcp_notes_read_note');
  const { payload } = await proposed(read, { name: 'a' });
  const changes = changing(servers, `mcp_notes_change_description_${mark}`);
  await applied(changes, { to: 'Reads and tells.', quietly: true });
  expect(read.unavailable?.()).toBeUndefined();
  await expect(read.apply(payload, never)).rejects.toMatchObject({ code: 'base_moved' });
  expect(read.unavailable?.()).toContain('changed this tool in the meantime');

  const often = await startedWith(watching, childConfig('serve'));
  const seen = changing(often.servers, 'mcp_notes_read_note');
  await applied(changing(often.servers, `mcp_notes_change_description_${mark}`), { to: 'x', quietly: true });
  await until(() => seen.unavailable?.() !== undefined);
});

describe('a server over HTTP', () => {
  test('one that is down is unavailable, and used again when it is back', async () => {
    const server = await httpServer('streamable');
    const { servers, notices } = await startedWith(watching, httpConfig(server.url));
    const tool = changing(servers, 'mcp_notes_structured');
    await server.close();
    await until(() => tool.unavailable?.() !== undefined);
    expect(tool.unavailable?.()).toMatch(/cannot be used at the moment: it cannot be reached \(ECONN/);
    const again = await httpServer('streamable', { port: server.port });
    cleanups.push(() => again.close());
    await until(() => tool.unavailable?.() === undefined);
    expect(await applied(changing(servers, 'mcp_notes_structured'))).toMatchObject({ ok: true });
    expect(notices.at(-1)).toContain('connected');
  });

  test('a wrong token is reported without the token', async () => {
    const server = await httpServer('streamable', { token: 'right' });
    cleanups.push(() => server.close());
    const { servers } = await started(
      httpConfig(server.url, { headers: { Authorization: 'Bearer hunter2' } }),
    );
    expect(servers.servers[0]?.downReason).toBe(
      'it answered with HTTP status 401; check the headers that it is sent',
    );
  });
});
