/** A folder, the file tools, and changes of tasks in a database. */
import { existsSync, mkdtempSync, readFileSync, realpathSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ChangeTool, ToolContext } from '../../src/agent/tool.ts';
import { builtinTools } from '../../src/agent/tools/builtin/builtin-tools.ts';
import { context, FakeTool, type pendingHosts } from './pending-world.ts';
import type { routeServers } from './serve-routes.ts';

const none = () => Promise.resolve([]);
const fileTools = () =>
  builtinTools({
    forbidden: [],
    sandbox: 'There is none.',
    lab: () => {
      throw new Error('no model');
    },
    observe: { sessions: none, receipts: none, pending: none, telemetry: none, health: none },
  }).tools();

export async function stagedWorld(
  database: string,
  host: ReturnType<typeof pendingHosts>['host'],
  serve: ReturnType<typeof routeServers>,
) {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'lathe-set-')));
  const tools = [...fileTools(), new FakeTool('run_it')];
  const first = await host(database, { tools });
  const grants = { tools: ['*'], read: [], write: [folder], network: [], auto_approve: [] };
  const of = (taskId: string): ToolContext => {
    const staged = first.changes.stagedFiles({ taskId });
    return context({ taskId, grants, cwd: folder, staged });
  };
  const find = (name: string) => tools.find((one) => one.name === name);
  const stage = async (name: string, args: object, taskId = 't1') => {
    const tool = find(name) as ChangeTool;
    const proposal = await tool.propose({ intent: 'because', ...args }, of(taskId));
    if (!('payload' in proposal)) throw new Error(proposal.output);
    return (await first.changes.stage(tool, proposal, of(taskId))).id;
  };
  const read = async (name: string, args: object, taskId = 't1') => {
    const tool = find(name);
    if (tool?.kind !== 'read') throw new Error(`${name} is no tool that reads`);
    return (await tool.run({ ...args }, of(taskId))).output;
  };
  const { send } = await serve(first.routes);
  const approve = async (ids: readonly unknown[]) => {
    const response = await send('POST', '/agent/v1/pending/approve', { ids });
    const body = (await response.json()) as {
      applied?: string[];
      error?: { code: string; message: string };
    };
    return { status: response.status, ...body };
  };
  const text = (name: string) =>
    existsSync(join(folder, name)) ? readFileSync(join(folder, name), 'utf8') : undefined;
  const states = async (changes = first.changes) => {
    const all: string[] = [];
    for (let n = 1; ; n++) {
      const one = await changes.get(`p${n}`).catch(() => undefined);
      if (!one) return all.join(' ');
      all.push(one.state);
    }
  };
  return { ...first, folder, database, tools, staging: of, stage, read, approve, text, states };
}
