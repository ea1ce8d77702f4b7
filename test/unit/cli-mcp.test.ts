import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { parseSettings } from '../../src/config/toml.ts';
import { commandLines } from '../support/command-lines.ts';
import { childCommand } from '../support/mcp-servers.ts';
import { runsRest } from '../support/tier.ts';

const folder = await mkdtemp(join(tmpdir(), 'lathe-cli-mcp-'));
afterAll(() => rm(folder, { recursive: true }));

const lathe = commandLines(folder);

async function configFile(text: string): Promise<string> {
  const path = join(folder, `${text.length}.toml`);
  await writeFile(path, text);
  return path;
}
const table = (name: string, mode: string, more = '') =>
  `[mcp.${name}]\ncommand = ${JSON.stringify(childCommand(mode))}\n${more}`;

describe('mcp', () => {
  test.runIf(runsRest)(
    'pins prints a table that makes all tools of the server pinned, as list and show then say',
    async () => {
      const config = await configFile(table('notes', 'serve'));
      const { stdout: pins, stderr, code } = await lathe(['mcp', 'pins', 'notes', '--config', config]);
      expect([stderr, code]).toEqual(['', 0]);
      expect(pins).toMatch(/^\[mcp\.notes\.pins\]\nread_note = "sha256:[0-9a-f]{64}"\n/);
      const pinned = await configFile(
        `${table('notes', 'serve')}${pins}lost = "sha256:${'0'.repeat(64)}"\n${table('dead', 'die')}${table('off', 'serve', 'enabled = false\n')}`,
      );
      const list = await lathe(['mcp', 'list', '--config', pinned]);
      expect(list.stdout).toMatch(/^notes +\S+ +up +13 pinned, 1 pinned but no longer listed$/m);
      expect(list.stdout).toMatch(/^dead +\S+ +down +it ended \(exit code 3\): no database at \/x$/m);
      expect(list.stdout).toMatch(/^off +\S+ +disabled$/m);
      const rows = JSON.parse((await lathe(['mcp', 'list', '--json', '--config', pinned])).stdout) as unknown;
      expect(rows).toMatchObject([
        { name: 'notes', state: 'up', tools: { pinned: 13, unpinned: 0, changed: 0, missing: 1 } },
        { name: 'dead', state: 'down' },
        { name: 'off', state: 'disabled' },
      ]);
      const show = (await lathe(['mcp', 'show', 'notes', '--config', pinned])).stdout;
      expect(show).toContain(
        'read_note\n  tool name       mcp_notes_read_note\n  state           pinned: runs without approval\n',
      );
      expect(show).toContain(
        'lost\n  tool name       mcp_notes_lost\n  state           pinned, but no longer listed by the server',
      );
      const json = JSON.parse(
        (await lathe(['mcp', 'pins', 'notes', '--json', '--config', config])).stdout,
      ) as object;
      const read = parseSettings(`${table('notes', 'serve')}${pins}`, 'host.toml', '/');
      expect(read.mcp?.['notes']?.pins).toEqual(json);
    },
  );

  test.each([
    [['mcp', 'list'], 'lathe: no MCP servers are configured; add tables [mcp.NAME] to a TOML file'],
    [
      ['mcp', 'show', 'ded'],
      "lathe: there is no MCP server 'ded' (did you mean 'dead'?). Configured: dead, secret.",
    ],
    [['mcp', 'show', 'dead'], "lathe: the MCP server 'dead': it ended (exit code 3): no database at /x."],
    [['mcp', 'list'], 'lathe: mcp.secret.env_from: the environment variable ABSENT is not set'],
  ])('%j says %s', async (args, message) => {
    const config = await configFile(
      table('dead', 'die') + table('secret', 'serve', 'env_from = ["ABSENT"]\n'),
    );
    const configured = !message.includes('no MCP servers');
    const { stderr, code } = await lathe(configured ? [...args, '--config', config] : args);
    expect(stderr).toContain(message);
    expect(code).not.toBe(0);
  });
});
