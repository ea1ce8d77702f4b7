import { mkdir, mkdtemp, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach } from 'vitest';
import type { Grants } from '../../src/agent/shapes/agent-spec.ts';
import type { ChangeTool, Proposal, Tool, ToolContext, ToolOutput } from '../../src/agent/tool.ts';
import { type BuiltinOptions, builtinTools } from '../../src/agent/tools/builtin/builtin-tools.ts';

/** A folder of its own for a test, with `granted` (written and read), `shown` (read) and `outside` in it. */
export interface ToolWorld {
  readonly folder: string;
  readonly granted: string;
  readonly shown: string;
  readonly outside: string;
  readonly tools: readonly Tool[];
  tool(name: string): Tool;
  context(changes?: Partial<Grants>, signal?: AbortSignal): ToolContext;
  /** Runs a tool that only reads. */
  run(name: string, args: object, context?: ToolContext): Promise<ToolOutput>;
  propose(name: string, args: object, context?: ToolContext): Promise<Proposal | ToolOutput>;
  /** @throws where it was refused */
  proposed(name: string, args: object, context?: ToolContext): Promise<Proposal>;
  /** Applies what went through the database. */
  apply(name: string, proposal: Proposal): Promise<ToolOutput>;
}

/** Removed after each test of the file. */
export function toolWorlds() {
  const folders: string[] = [];
  afterEach(async () => {
    await Promise.all(folders.splice(0).map((folder) => rm(folder, { recursive: true, force: true })));
  });
  return async (options: Partial<BuiltinOptions> = {}): Promise<ToolWorld> => {
    const folder = await realpath(await mkdtemp(join(tmpdir(), 'lathe-tools-')));
    folders.push(folder);
    const [granted, shown, outside] = ['granted', 'shown', 'outside'].map((name) => join(folder, name)) as [
      string,
      string,
      string,
    ];
    await Promise.all([granted, shown, outside].map((path) => mkdir(path)));
    return world({ folder, granted, shown, outside }, options);
  };
}

function world(
  places: Pick<ToolWorld, 'folder' | 'granted' | 'shown' | 'outside'>,
  options: Partial<BuiltinOptions>,
): ToolWorld {
  const none = () => Promise.resolve([]);
  const tools = builtinTools({
    forbidden: [],
    sandbox: 'There is no sandbox in this test.',
    lab: () => {
      throw new Error('No model is loaded.');
    },
    observe: { sessions: none, receipts: none, pending: none, telemetry: none, health: none },
    ...options,
  }).tools();
  const tool = (name: string): Tool => {
    const found = tools.find((one) => one.name === name);
    if (!found) throw new Error(`no tool ${name}`);
    return found;
  };
  const change = (name: string): ChangeTool => {
    const found = tool(name);
    if (found.kind !== 'change') throw new Error(`${name} changes nothing`);
    return found;
  };
  const context: ToolWorld['context'] = (changes = {}, signal = new AbortController().signal) => ({
    agent: 'tester',
    grants: {
      tools: ['*'],
      read: [places.shown],
      write: [places.granted],
      network: [],
      auto_approve: [],
      ...changes,
    },
    cwd: places.granted,
    signal,
  });
  const propose: ToolWorld['propose'] = (name, args, within = context()) =>
    change(name).propose({ intent: 'to test it', ...args }, within);
  return {
    ...places,
    tools,
    tool,
    context,
    propose,
    run(name, args, within = context()) {
      const found = tool(name);
      if (found.kind !== 'read') throw new Error(`${name} changes something`);
      return found.run({ ...args }, within);
    },
    async proposed(name, args, within) {
      const answer = await propose(name, args, within);
      if ('ok' in answer) throw new Error(answer.output);
      return answer;
    },
    apply: (name, { payload }) =>
      change(name).apply(JSON.parse(JSON.stringify(payload)), new AbortController().signal),
  };
}
