import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { toolCatalogEntry } from '../../src/agent/shapes/tool.ts';
import type { ChangeTool, ReadTool, Tool, ToolSource } from '../../src/agent/tool.ts';
import { globMatches } from '../../src/agent/tools/glob.ts';
import { CombinedToolbox } from '../../src/agent/tools/toolbox.ts';
import { translateToXGrammar } from '../../src/grammar/translate.ts';
import { toolWorlds } from '../support/agent-tools.ts';

const newWorld = toolWorlds();

const read = (name: string, more: Partial<ReadTool> = {}): ReadTool => ({
  kind: 'read',
  name,
  description: `reads ${name}`,
  source: 'builtin',
  inputSchema: { type: 'object' },
  run: async () => ({ ok: true, output: name, truncated: false }),
  ...more,
});
const change = (name: string, more: Partial<ChangeTool> = {}): ChangeTool => ({
  kind: 'change',
  name,
  description: `changes ${name}`,
  source: 'builtin',
  inputSchema: { type: 'object' },
  propose: async () => ({ ok: false, output: name, truncated: false }),
  apply: async () => ({ ok: true, output: name, truncated: false }),
  ...more,
});
const source = (...tools: Tool[]): ToolSource => ({ tools: () => tools });
const names = (tools: readonly { name: string }[]) => tools.map(({ name }) => name);
const grants = (...tools: string[]) => ({
  grants: { tools, read: [], write: [], network: [], auto_approve: [] },
});

describe('globMatches', () => {
  it.each([
    ['fs_read', 'fs_read', true],
    ['fs_*', 'fs_read', true],
    ['*', '', true],
    ['*', 'anything', true],
    ['fs_*', 'mcp_fs_read', false],
    ['*_read', 'fs_read', true],
    ['a*b*c', 'aXbXbXc', true],
    ['a*b*c', 'aXbXbX', false],
    ['fs_?ead', 'fs_read', false],
    ['fs.read', 'fs_read', false],
    ['', 'a', false],
    ['[a-z]*', 'fs', false],
  ])('%s and %s: %s', (glob, name, fits) => {
    expect(globMatches(glob, name)).toBe(fits);
  });

  it('agrees with a regular expression, and is fast for any glob', () => {
    const text = fc.string({ unit: fc.constantFrom('a', 'b', '*', '.'), maxLength: 12 });
    fc.assert(
      fc.property(text, text, (glob, name) => {
        const pattern = glob.replaceAll('.', '\\.').replaceAll(/\*+/g, '.*');
        expect(globMatches(glob, name)).toBe(new RegExp(`^${pattern}$`).test(name));
      }),
      { numRuns: 2000 },
    );
    expect(globMatches(`${'*a'.repeat(100)}b`, 'a'.repeat(200))).toBe(false);
  });
});

describe('the catalog', () => {
  it('keeps the order of its sources, and has a reason for each state', async () => {
    const box = new CombinedToolbox(
      [
        source(read('b'), change('a'), read('gone', { unavailable: () => 'There is no model.' })),
        source(read('mcp_x_y', { source: 'mcp:x', pin: 'sha256:1' })),
      ],
      true,
    );
    const entries = await box.catalog();
    expect(names(entries)).toEqual(['b', 'a', 'gone', 'mcp_x_y']);
    expect(entries).toMatchObject([
      { availability: 'available', destructive: false },
      {
        availability: 'gated',
        destructive: true,
        reason: expect.stringContaining('GET /agent/v1/pending'),
      },
      { availability: 'unavailable', reason: 'There is no model.' },
      { availability: 'available', source: 'mcp:x', pin: 'sha256:1' },
    ]);
    expect(entries[0]).not.toHaveProperty('reason');
    expect(box.enforcementTier).toBe('os_sandbox');
    expect(new CombinedToolbox([], false).enforcementTier).toBe('path');
  });

  it('marks the second of two tools with the same name as unavailable', async () => {
    const first = read('twin', { source: 'mcp:one' });
    const box = new CombinedToolbox([source(first), source(change('twin', { source: 'mcp:two' }))], false);
    expect(await box.catalog()).toMatchObject([
      { source: 'mcp:one', availability: 'available' },
      { source: 'mcp:two', availability: 'unavailable', reason: expect.stringContaining('from mcp:one') },
    ]);
    expect(box.find('twin')).toBe(first);
    expect(box.granted(grants('*'))).toEqual([first]);
    expect(box.find('none')).toBeUndefined();
  });

  it('reads its sources on every call', async () => {
    let why: string | undefined = 'Not yet.';
    const tools = [read('late', { unavailable: () => why })];
    const box = new CombinedToolbox([{ tools: () => tools }], false);
    expect(names(box.granted(grants('late')))).toEqual([]);
    why = undefined;
    tools.push(read('later'));
    expect(names(box.granted(grants('late*')))).toEqual(['late', 'later']);
    expect(await box.catalog()).toMatchObject([{ availability: 'available' }, { name: 'later' }]);
  });

  it('grants nothing by default', () => {
    const box = new CombinedToolbox([source(read('a'), change('b'))], false);
    expect(box.granted(grants())).toEqual([]);
    expect(names(box.granted(grants('b')))).toEqual(['b']);
  });
});

describe('the built-in tools', () => {
  it('are complete, in a stable order, with schemas that constrained decoding supports', async () => {
    const { tools } = await newWorld();
    expect(names(tools).join(' ')).toBe(
      'fs_list fs_read fs_search fs_write fs_edit fs_delete fs_rename fs_mkdir http_get run_command lab_graph lab_parts lab_ops lab_stub lab_configs lab_register lab_parity lab_bench lab_bind lab_save lab_clear observe_sessions observe_receipts observe_pending observe_telemetry observe_health',
    );
    for (const { name, kind, inputSchema } of tools) {
      expect(name).toMatch(/^[a-z][a-z0-9_]{0,63}$/);
      expect(
        () => translateToXGrammar({ kind: 'json_schema', schema: inputSchema }, { allowLengthMarks: true }),
        name,
      ).not.toThrow();
      if (kind !== 'change') continue;
      const { properties, required } = inputSchema as { properties: object; required: string[] };
      expect([Object.keys(properties).at(-1), required.at(-1)], name).toEqual(['intent', 'intent']);
    }
    for (const entry of await new CombinedToolbox([{ tools: () => tools }], false).catalog())
      expect(toolCatalogEntry.parse(entry)).toEqual(entry);
  });

  it('report a missing model or sandbox', async () => {
    const { tools } = await newWorld();
    const catalog = await new CombinedToolbox([{ tools: () => tools }], false).catalog();
    const missing = catalog.filter(({ availability }) => availability === 'unavailable');
    expect(names(missing).filter((name) => !name.startsWith('lab_'))).toEqual(['run_command']);
    expect(missing.find(({ name }) => name === 'lab_bind')?.reason).toBe(
      'There is no kernel lab at the moment: No model is loaded.',
    );
  });
});
