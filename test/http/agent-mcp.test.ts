import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { systemClock } from '../../src/agent/clock.ts';
import { type McpServerConfig, McpServers } from '../../src/agent/mcp/index.ts';
import type { ToolCatalogEntry } from '../../src/agent/shapes/tool.ts';
import { CombinedToolbox } from '../../src/agent/tools/toolbox.ts';
import { toolRoutes } from '../../src/planes/agent/tools-routes.ts';
import { openConversationWorld } from '../support/conversation-world.ts';
import { childCommand, childConfig, httpConfig, httpServer, isAlive } from '../support/mcp-servers.ts';
import { routeServers } from '../support/serve-routes.ts';
import { until } from '../support/until.ts';

const serveRoutes = routeServers();
const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean();
});

/** The catalog of these servers over HTTP, by name. */
async function catalog(...configs: McpServerConfig[]) {
  const servers = new McpServers(configs, { version: '1', clock: systemClock, onNotice: () => undefined });
  cleanups.push(() => servers.close());
  servers.start();
  const { send } = await serveRoutes(toolRoutes(new CombinedToolbox([servers], false)));
  const list = async () => {
    const entries = (await (await send('GET', '/agent/v1/tools')).json()) as ToolCatalogEntry[];
    return new Map(entries.map((entry) => [entry.name, entry]));
  };
  const atOnce = await list();
  await Promise.all(servers.servers.map(({ firstAttempt: settled }) => settled));
  return { atOnce, entries: await list() };
}

const zeros = `sha256:${'0'.repeat(64)}`;
const named = (config: McpServerConfig, name: string): McpServerConfig => ({ ...config, name });

test('the catalog shows every state of MCP tools, each with a reason that says what to do', async () => {
  const remote = await httpServer('streamable');
  cleanups.push(() => remote.close());
  const first = await catalog(childConfig('serve'));
  const pin = (name: string) => first.entries.get(name)?.pin ?? '';
  const pins = {
    read_note: pin('mcp_notes_read_note'),
    write_note: pin('mcp_notes_write_note'),
    shapes: zeros,
  };
  const { atOnce, entries } = await catalog(
    childConfig('serve', { pins }),
    named(httpConfig(remote.url), 'remote'),
    named(childConfig('die', { pins: { read_note: zeros } }), 'dead'),
  );

  // The host does not wait for servers: pinned tools are listed from the start.
  expect([...atOnce.keys()]).toEqual([
    'mcp_notes_read_note',
    'mcp_notes_write_note',
    'mcp_notes_shapes',
    'mcp_dead_read_note',
  ]);
  expect(atOnce.get('mcp_notes_read_note')).toMatchObject({
    availability: 'unavailable',
    reason: "The MCP server 'notes' cannot be used at the moment: it is being started.",
  });

  const read = entries.get('mcp_notes_read_note');
  expect(read).toEqual({
    name: 'mcp_notes_read_note',
    description: 'Reads a note.',
    source: 'mcp:notes',
    input_schema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
    destructive: false,
    availability: 'available',
    pin: pins.read_note,
  });
  const write = entries.get('mcp_notes_write_note');
  expect(write).toMatchObject({ destructive: true, availability: 'gated' });
  expect(write?.reason).not.toContain('pin');
  expect(entries.get('mcp_notes_shapes')).toMatchObject({
    destructive: true,
    availability: 'unavailable',
    reason: expect.stringMatching(`it was ${zeros} and is sha256:.*mcp pins notes`) as unknown,
  });
  // The same tool of another server, with the hash that it can be pinned by: not pinned there.
  const unpinned = entries.get('mcp_remote_read_note');
  expect(unpinned).toMatchObject({ destructive: true, availability: 'gated', pin: pins.read_note });
  expect(unpinned?.reason).toContain(`Not pinned`);
  expect(unpinned?.reason).toContain(`add "read_note" = "${pins.read_note}" to [mcp.remote.pins]`);
  expect(entries.get('mcp_dead_read_note')).toMatchObject({
    destructive: true,
    availability: 'unavailable',
    pin: zeros,
    reason: "The MCP server 'dead' cannot be used at the moment: it ended (exit code 3): no database at /x.",
  });
});

test.skipIf(process.platform !== 'linux')(
  'a server that outlives its killed host is ended by the next start of the host',
  async () => {
    const command = JSON.stringify(childCommand('stubborn'));
    const world = await openConversationWorld([], { tables: `[mcp.notes]\ncommand = ${command}\n` });
    try {
      const folder = join(world.dataDir, 'processes');
      const pids = () =>
        existsSync(folder) ? readdirSync(folder).map((name) => Number.parseInt(name, 10)) : [];
      await until(() => pids().length === 1);
      const [left = 0] = pids();
      await world.kill();
      expect(await isAlive(left)).toBe(true);
      await world.start();
      await until(async () => !(await isAlive(left)));
      await until(() => pids().length === 1);
      expect(pids()).not.toContain(left);
    } finally {
      await world.end();
    }
  },
);
