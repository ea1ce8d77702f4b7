import { describe, expect, it } from 'vitest';
import { CombinedToolbox } from '../../src/agent/tools/toolbox.ts';
import { Bubblewrap } from '../../src/agent/tools/sandbox/bubblewrap.ts';
import { toolRoutes } from '../../src/planes/agent/tools-routes.ts';
import { toolWorlds } from '../support/agent-tools.ts';
import { routeServers } from '../support/serve-routes.ts';

const newWorld = toolWorlds();
const serve = routeServers();

describe('GET /agent/v1/tools', () => {
  it('returns the catalog with three states, each with its reason', async () => {
    const sandbox = await Bubblewrap.probe();
    const { tools } = await newWorld({ sandbox });
    const box = new CombinedToolbox([{ tools: () => tools }], typeof sandbox !== 'string');
    const { send } = await serve(toolRoutes(box));
    const response = await send('GET', '/agent/v1/tools');
    expect(response.status).toBe(200);
    const entries = (await response.json()) as { name: string; availability: string; reason?: string }[];
    const states = Object.fromEntries(entries.map(({ name, availability }) => [name, availability]));
    expect(states).toMatchObject({
      fs_read: 'available',
      http_get: 'available',
      fs_write: 'gated',
      fs_delete: 'gated',
      fs_rename: 'gated',
      fs_mkdir: 'gated',
      lab_graph: 'unavailable',
      run_command: typeof sandbox === 'string' ? 'unavailable' : 'gated',
    });
    for (const { availability, reason } of entries)
      expect(typeof reason).toBe(availability === 'available' ? 'undefined' : 'string');
    expect(await (await send('GET', '/agent/v1/tools')).json()).toEqual(entries);
  });
});
