import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import type { TurnEvent } from '../../src/agent/shapes/turn-event.ts';
import { builtinTools } from '../../src/agent/tools/builtin/builtin-tools.ts';
import { type Engine, loadEngine } from '../../src/engine/index.ts';
import { type GrammarService, createGrammarService } from '../../src/grammar/index.ts';
import { Resident } from '../../src/planes/resident.ts';
import { nodePlatform } from '../../src/platform/node.ts';
import { startGrammarThread } from '../../src/platform/node-grammar.ts';
import { freshSqlite } from '../support/databases.ts';
import { entryPath, freshDataDir } from '../support/host.ts';
import { routeServers } from '../support/serve-routes.ts';
import { fixtureModel } from '../support/shared.ts';
import { openTaskWorld } from '../support/task-world.ts';

// Tasks on the embedded model: a toy with a context of 1,024 tokens, so what it writes is not judged, only what is done
// with it. At temperature 0 it always writes the same.
let engine: Engine;
let grammars: GrammarService;
const resident = new Resident('loading');
beforeAll(async () => {
  engine = await loadEngine(nodePlatform(), { model: fixtureModel, parallel: 4 });
  const entry = entryPath('grammar-worker');
  const { tokenizer, model } = engine;
  grammars = createGrammarService({
    tokenizer,
    vocabSize: model.vocabSize,
    startWorker: () => startGrammarThread(entry),
  });
  resident.setReady(engine, { grammars });
});
afterAll(async () => {
  await grammars?.close();
  await engine?.close();
});

const serve = routeServers();
const open: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of open.splice(0).toReversed()) await close();
});

async function start() {
  const folder = join(freshDataDir(), 'notes');
  mkdirSync(folder);
  writeFileSync(join(folder, 'hello.txt'), 'The tea is hot.\n');
  const none = () => {
    throw new Error('there is no lab here');
  };
  const tools = builtinTools({ forbidden: [], sandbox: 'none', lab: none, observe: {} as never }).tools();
  const agent = (name: string, granted: string[], more: object = {}) => ({
    name,
    instructions: 'You are a helpful assistant.',
    model: 'resident',
    sampling: { temperature: 0 },
    grants: { tools: granted, read: [folder], write: [folder] },
    ...more,
  });
  const world = await openTaskWorld(freshSqlite(), {
    resident,
    tools,
    agents: [
      agent('plain', []),
      agent('reader', ['fs_read']),
      agent('writer', ['fs_write'], { tool_choice: { name: 'fs_write' }, limits: { max_turns: 1 } }),
      agent('crowded', ['*']),
    ],
  });
  open.push(async () => {
    await world.tasks.stop();
    await world.store.close();
  });
  const server = await serve(world.routes);
  const run = async (name: string, prompt: string, more: object = {}) => {
    const body = { agent: name, prompt, cwd: folder, ...more };
    const response = await server.send('POST', '/agent/v1/tasks', body);
    const lines = (await response.text()).trimEnd().split('\n');
    return lines.map((line) => JSON.parse(line) as TurnEvent);
  };
  return { run, folder };
}
const of = <Type extends TurnEvent['type']>(lines: readonly TurnEvent[], type: Type) =>
  lines.filter((line): line is Extract<TurnEvent, { type: Type }> => line.type === type);

it('runs several tasks at once on the embedded model', async () => {
  const { run } = await start();
  const question = 'What is the capital of France?';
  const all = await Promise.all([run('plain', question), run('plain', question), run('plain', question)]);
  for (const lines of all) {
    const [answer] = of(lines, 'answer');
    expect(answer?.text).toBe('The capital of France is Paris.');
    expect(answer?.usage?.completion_tokens).toBeGreaterThan(0);
  }
});

it('reads a file that the model asks for', async () => {
  const { run } = await start();
  const lines = await run('reader', 'What is in hello.txt?');
  expect(of(lines, 'tool_call')[0]).toMatchObject({ tool: 'fs_read', arguments: { path: 'hello.txt' } });
  expect(of(lines, 'tool_result')[0]).toMatchObject({ ok: true, output: 'The tea is hot.\n' });
});

it('stages the same change every time a call is forced', async () => {
  const { run, folder } = await start();
  const [one, two] = [await run('writer', writing), await run('writer', writing)];
  const [call] = of(one, 'tool_call');
  // Constrained by the grammar to the schema of the tool.
  expect(call).toMatchObject({
    tool: 'fs_write',
    arguments: { path: expect.any(String), content: expect.any(String) },
  });
  expect(of(two, 'tool_call')[0]?.arguments).toEqual(call?.arguments);
  expect(of(one, 'staged')[0]?.summary).toContain(folder);
  expect(of(one, 'tool_result')[0]).toMatchObject({
    ok: true,
    output: expect.stringContaining('waits for a person'),
  });
});
const writing = 'Save "port: 80" in notes/list.md.';

it('fails when the granted tools do not fit the context', async () => {
  const { run } = await start();
  const lines = await run('crowded', 'Go.');
  expect(lines.at(-1)).toMatchObject({
    type: 'aborted',
    reason: 'error',
    message: expect.stringMatching(
      /\d+ tools, does not fit the context of the model: grant fewer tools/,
    ) as string,
  });
});

it('constrains an answer to the requested format', async () => {
  const { run } = await start();
  const schema = { type: 'object', properties: { city: { enum: ['Paris', 'Rome'] } }, required: ['city'] };
  const lines = await run('plain', 'What is the capital of France?', {
    response_format: { type: 'json_schema', json_schema: { schema } },
  });
  expect(JSON.parse(of(lines, 'answer')[0]?.text ?? '')).toHaveProperty('city');
});
