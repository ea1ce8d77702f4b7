/** Steps whose host ended: they go on at their last unfinished call. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { openConversationWorld } from '../support/conversation-world.ts';
import type { OpenAiScript } from '../support/scripted-openai.ts';
import { until } from '../support/until.ts';

const open: { end(): Promise<void> }[] = [];
afterEach(async () => {
  for (const world of open.splice(0)) await world.end();
});

const command = (script: string) => ({
  calls: [{ name: 'run_command', arguments: { intent: 'x', argv: ['sh', '-c', script] } }],
});
const write = (path: string) => ({
  calls: [{ name: 'fs_write', arguments: { path, content: 'new\n', intent: 'x' } }],
});

/** A host with a workflow of one step, whose model takes the n-th answer for n results that it has got. */
async function openWorld(answers: readonly object[], autoApprove: string[]) {
  const script: OpenAiScript = ({ body: { messages } }) => {
    const results = messages.filter(({ role }) => role === 'tool').length;
    return answers[results] ?? { text: `Done after ${results}.` };
  };
  const world = await openConversationWorld(script, { autoApprove, flags: ['--enable-all-workflows'] });
  open.push(world);
  const { call, json, folder } = world;
  const source = `[ensemble]
name = "w"
[workspace]
input = "folder"
[inputs.folder]
type = "string"
[agents.a]
instructions = "Work."
model = "scripted"
[agents.a.grants]
tools = ["fs_*", "run_command"]
read = ["."]
write = ["."]
auto_approve = ${JSON.stringify(autoApprove)}
[[steps]]
id = "s"
agent = "a"
prompt = "Go."
`;
  mkdirSync(folder, { recursive: true });
  expect((await call('POST', '/workflows', undefined, { 'content-type': 'text/plain' }, source)).status).toBe(
    201,
  );
  const begin = async (): Promise<string> => {
    void call('POST', '/workflows/w/runs', { inputs: { folder } })
      .then((response) => response.text())
      .catch(() => undefined);
    let id: string | undefined;
    await until(async () => {
      const runs = (await json('GET', '/workflows/runs')).body as unknown as { id: string }[];
      id = runs[0]?.id;
      return id !== undefined;
    });
    return id ?? '';
  };
  const run = async (id: string) => (await json('GET', `/runs/${id}`)).body;
  const pending = async () =>
    (await json('GET', '/pending')).body as unknown as { id: string; tool: string }[];
  const log = () => (existsSync(join(folder, 'log')) ? readFileSync(join(folder, 'log'), 'utf8') : '');
  const runEvents = async (id: string) => await world.linesOf(await call('GET', `/runs/${id}/events`));
  return { ...world, begin, run, pending, log, runEvents };
}

describe('a step whose host was killed', () => {
  it('makes finished calls once, repeats one that only reads, and is not asked about', async () => {
    const world = await openWorld([command('echo x >> log'), { hang: true }], ['run_command']);
    const id = await world.begin();
    await until(() => world.gateway.requests.length === 2);
    await world.kill();
    await world.start();
    await until(() => world.gateway.requests.length === 3);
    // The same conversation again, with the result of the finished call.
    expect(world.gateway.requests[2]?.body.messages).toEqual(world.gateway.requests[1]?.body.messages);
    expect(await world.pending()).toEqual([]);
    expect(world.log()).toBe('x\n');
    expect(await world.run(id)).toMatchObject({ state: 'running', step_records: [{ id: 's', attempts: 1 }] });
  });

  it('goes on waiting for the decision on a change that it staged', async () => {
    const world = await openWorld([write('notes.md')], []);
    const id = await world.begin();
    await until(async () => (await world.pending()).length === 1);
    const [change] = await world.pending();
    await world.kill();
    await world.start();
    await until(async () => (await world.run(id))['waiting_on'] === 'approval');
    expect(await world.pending()).toMatchObject([{ id: change?.id, tool: 'fs_write' }]);
    expect((await world.call('POST', `/pending/${change?.id}/approve`)).status).toBe(200);
    await until(async () => (await world.run(id))['state'] === 'completed');
    expect(await world.run(id)).toMatchObject({ result: 'Done after 1.', step_records: [{ attempts: 1 }] });
    expect(readFileSync(join(world.folder, 'notes.md'), 'utf8')).toBe('new\n');
  });

  it('counts its tokens once, also when the host was stopped in good order', async () => {
    const world = await openWorld([write('notes.md')], []);
    const id = await world.begin();
    await until(async () => (await world.pending()).length === 1);
    const [change] = await world.pending();
    await world.stop();
    await world.start();
    expect((await world.call('POST', `/pending/${change?.id}/approve`)).status).toBe(200);
    await until(async () => (await world.run(id))['state'] === 'completed');
    const used = (await world.runEvents(id)).flatMap((line) => {
      const event = line['event'] as { type: string; prompt_tokens: number; completion_tokens: number };
      return line.type === 'step_event' && event.type === 'usage' ? [event] : [];
    });
    expect(used).toHaveLength(2);
    const sum = (member: 'prompt_tokens' | 'completion_tokens') =>
      used.reduce((total, event) => total + event[member], 0);
    expect((await world.run(id))['tokens']).toEqual({
      prompt: sum('prompt_tokens'),
      completion: sum('completion_tokens'),
    });
  });

  it('is cancelled while it waits, after a restart, too', async () => {
    const world = await openWorld([write('notes.md')], []);
    const id = await world.begin();
    await until(async () => (await world.pending()).length === 1);
    await world.stop();
    await world.start();
    await until(async () => (await world.run(id))['waiting_on'] === 'approval');
    expect((await world.call('POST', `/sessions/${id}/cancel`)).status).toBe(202);
    await until(async () => (await world.run(id))['state'] === 'cancelled');
    expect(await world.pending()).toEqual([]);
  });

  it('asks about a call that may have been made, and makes it again if a person says so', async () => {
    const slow = command('echo x >> log; test -f go || sleep 60');
    const world = await openWorld([slow], ['run_command']);
    const id = await world.begin();
    await until(() => world.log() !== '');
    await world.kill();
    await world.start();
    await until(async () => (await world.pending()).length === 1);
    const [question] = await world.pending();
    expect(question).toMatchObject({ tool: 'repeat_call', run_id: id, step: 's' });
    expect(await world.run(id)).toMatchObject({ state: 'running', waiting_on: 'approval' });
    writeFileSync(join(world.folder, 'go'), '');
    await world.call('POST', `/pending/${question?.id}/approve`);
    await until(async () => (await world.run(id))['state'] === 'completed');
    expect(world.log()).toBe('x\nx\n');
    const types = (await world.runEvents(id)).flatMap((line) =>
      line.type === 'step_event' ? [(line['event'] as { type: string }).type] : [line.type],
    );
    expect(
      types.filter((type) => ['step_start', 'resumed', 'staged', 'step_waiting'].includes(type)),
    ).toEqual(['step_start', 'resumed', 'staged', 'step_waiting']);
  });
});
