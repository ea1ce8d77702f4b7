/** Agents that hand work on to tasks of their own. */
import { createHash, createPublicKey, verify } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { openConversationWorld } from '../support/conversation-world.ts';
import { until } from '../support/until.ts';

const open: { end(): Promise<void> }[] = [];
afterEach(async () => {
  for (const world of open.splice(0)) await world.end();
});

type Answer = { text?: string; calls?: { id?: string; name: string; arguments: object }[]; hang?: true };
const delegate = (...calls: object[]): Answer => ({
  calls: calls.map((args) => ({ name: 'delegate', arguments: args })),
});

/** A model that answers by the first word of the first prompt, a step for each result that it has got. */
async function openWorld(
  answers: Readonly<Record<string, readonly Answer[]>>,
  more: { flags?: string[] } = {},
) {
  const world = await openConversationWorld(({ body: { messages } }) => {
    const first = messages.find(({ role }) => role === 'user');
    const results = messages.filter(({ role }) => role === 'tool');
    const word = String(first?.content).split(/\s/)[0] ?? '';
    return (
      answers[word]?.[results.length] ?? {
        text: `${word} has ${results.map(({ content }) => String(content)).join(' | ')}`,
      }
    );
  }, more);
  open.push(world);
  mkdirSync(world.folder, { recursive: true });
  const spec = {
    name: 'lead',
    instructions: 'Lead.',
    model: 'scripted',
    grants: {
      tools: ['fs_*', 'delegate'],
      read: [world.folder],
      write: [world.folder],
    },
  };
  expect((await world.call('POST', '/agents', spec)).status).toBe(201);
  const lead = (prompt: string, rest: object = {}) =>
    world.call('POST', '/tasks', { agent: 'lead', cwd: world.folder, prompt, ...rest });
  const ended = async (id: string) => {
    await until(async () => (await world.detail(id))['state'] !== 'running');
    return await world.detail(id);
  };
  const receipt = async (id: string) => (await world.json('GET', `/sessions/${id}/receipt`)).body;
  return { ...world, lead, ended, receipt };
}

interface InfoOfKey {
  readonly receipt_key: { readonly public_key: string };
}

const canonical = (value: unknown): string =>
  value instanceof Object
    ? `{${Object.entries(value)
        .toSorted(([a], [b]) => (a < b ? -1 : 1))
        .map(([name, one]) => `${JSON.stringify(name)}:${canonical(one)}`)
        .join(',')}}`
    : JSON.stringify(value);

function isValid({ digest, signature, ...signed }: Readonly<Record<string, unknown>>, key: string): boolean {
  const expected = `sha256:${createHash('sha256').update(canonical(signed)).digest('hex')}`;
  const x = Buffer.from(key, 'base64').toString('base64url');
  const publicKey = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' });
  const { value } = signature as { value: string };
  return digest === expected && verify(null, Buffer.from(expected), publicKey, Buffer.from(value, 'base64'));
}

it('hands work on side by side, to tasks with their own streams and receipts', async () => {
  const { lead, detail, events, receipt, gateway, json, call } = await openWorld({
    LEAD: [delegate({ prompt: 'ONE part' }, { prompt: 'TWO part', max_turns: 2 })],
  });
  await (await lead('LEAD')).text();
  const parent = await detail('t1');
  expect(parent).toMatchObject({ state: 'completed' });
  const output = String(parent['answer']);
  for (const word of ['ONE', 'TWO'])
    expect(output).toMatch(new RegExp(`Task t[23] \\(lead\\) answered:\\n${word} has`));
  for (const id of ['t2', 't3']) {
    expect(await detail(id)).toMatchObject({ state: 'completed', agent: 'lead', parent: 't1' });
    expect((await events(id)).map(({ type }) => type)).toContain('answer');
    expect(await receipt(id)).toMatchObject({ parent: 't1', outcome: 'completed' });
  }
  expect(await receipt('t1')).toMatchObject({ delegated: 't2,t3' });
  // By another program than the host's: the one of docs/receipts.md.
  const info = (await (await call('GET', '/../../host/v1/info')).json()) as InfoOfKey;
  for (const id of ['t1', 't2', 't3'])
    expect(isValid(await receipt(id), info.receipt_key.public_key)).toBe(true);
  // It knows nothing of the conversation of the other.
  const child = gateway.requests.find(({ body }) => JSON.stringify(body.messages).includes('ONE part'));
  expect(child?.body.messages.filter(({ role }) => role === 'user')).toHaveLength(1);
  expect(((await json('GET', '/tasks')).body as { tasks: unknown[] }).tasks).toHaveLength(3);
});

it('gives it less than the agent has, and never more', async () => {
  const { lead, detail } = await openWorld({
    LEAD: [
      delegate({ prompt: 'READ it', grants: { tools: ['fs_read'], write: [] } }),
      delegate({ prompt: 'X', grants: { read: ['/etc'] } }),
      delegate({ prompt: 'X', agent: 'worker' }),
      delegate({ prompt: 'X', agent: 'nobody' }),
    ],
    READ: [{ calls: [{ name: 'fs_write', arguments: { path: 'a', content: 'x', intent: 'x' } }] }],
  });
  await (await lead('LEAD')).text();
  const answer = String((await detail('t1'))['answer']);
  const [read, wide, other, nobody] = answer.slice('LEAD has '.length).split(' | ');
  expect(read).toContain("There is no tool 'fs_write' for you");
  expect(wide).toMatch(/may not have more than you: grants\.read\.0: '\/etc'/);
  // The other agent may run commands, which this one may not.
  expect(other).toMatch(/may not have more than you: grants\.tools.*run_command/);
  expect(nobody).toContain("no stored agent 'nobody'");
  expect((await detail('t2'))['parent']).toBe('t1');
});

it('waits with the task for the decision on its change, and goes on after kills at any point', async () => {
  const world = await openWorld({
    LEAD: [delegate({ prompt: 'WRITE it' })],
    WRITE: [{ calls: [{ name: 'fs_write', arguments: { path: 'a.md', content: 'new', intent: 'x' } }] }],
  });
  const { lead, ended, kill, start, stop, waiting, call, json, folder } = world;
  writeFileSync(join(folder, 'a.md'), 'old');
  const response = await lead('LEAD', { approvals: 'wait' });
  const change = await waiting('t2');
  await kill();
  await response.text().catch(() => '');
  await start();
  expect(await waiting('t2')).toBe(change);
  // In good order, too: a task that only waits for another outlives its host.
  await stop();
  await start();
  expect(await waiting('t2')).toBe(change);
  expect((await call('POST', `/pending/${change}/approve`)).status).toBe(200);
  expect(await ended('t1')).toMatchObject({ state: 'completed', answer: expect.stringContaining('Task t2') });
  expect(await ended('t2')).toMatchObject({ state: 'completed' });
  expect(readFileSync(join(folder, 'a.md'), 'utf8')).toBe('new');
  // The call was made again, and found its task.
  expect(((await json('GET', '/tasks')).body as { tasks: unknown[] }).tasks).toHaveLength(2);
});

it('is stopped with the task, and is not handed on without end', async () => {
  const { lead, ended, call, detail, gateway } = await openWorld({
    LEAD: [delegate({ prompt: 'HANG' })],
    HANG: [{ hang: true }],
    DEEP: [delegate({ prompt: 'DEEP' })],
  });
  const response = await lead('LEAD');
  await until(() => gateway.requests.length === 2);
  expect((await call('POST', '/tasks/t1/stop')).status).toBe(200);
  await response.text();
  expect(await ended('t1')).toMatchObject({ state: 'cancelled' });
  expect(await ended('t2')).toMatchObject({ state: 'cancelled' });
  await (await lead('DEEP')).text();
  expect(String((await detail('t3'))['answer'])).toContain('handed on over 4 levels at most');
  expect((await detail('t6'))['parent']).toBe('t5');
  expect((await call('GET', '/tasks/t7')).status).toBe(404);
});

it('is a task of its own for each attempt of a step, whatever ids the model gives its calls', async () => {
  const { call, json, ended, folder } = await openWorld(
    { LEAD: [{ calls: [{ id: 'same', name: 'delegate', arguments: { prompt: 'ONE', agent: 'lead' } }] }] },
    { flags: ['--enable-all-workflows'] },
  );
  const source = `[ensemble]
name = "again"
[entry]
kind = "armed"
[agents.a]
instructions = "Lead."
model = "scripted"
[agents.a.grants]
tools = ["fs_*", "delegate"]
read = [${JSON.stringify(folder)}]
write = [${JSON.stringify(folder)}]
[[steps]]
id = "s"
agent = "a"
prompt = "LEAD"
`;
  const type = { 'content-type': 'text/plain' };
  expect((await call('POST', '/workflows', undefined, type, source)).status).toBe(201);
  const [line = ''] = (await (await call('POST', '/workflows/again/runs', {})).text()).split('\n');
  const { run_id: id } = JSON.parse(line) as { run_id: string };
  for (const cycle of [1, 2]) {
    expect((await call('POST', `/runs/${id}/run-now`)).status).toBe(200);
    await until(async () => {
      const run = (await json('GET', `/runs/${id}`)).body;
      return run['state'] === 'suspended' && run['wrapper_cycle'] === cycle;
    });
    expect(await ended(`t${cycle}`)).toMatchObject({ state: 'completed', parent: id });
  }
});

it('counts its tokens against the limit of the agent', async () => {
  const { lead, detail } = await openWorld({
    LEAD: [delegate({ prompt: 'ONE' }), delegate({ prompt: 'TWO' })],
  });
  await (await lead('LEAD', { limits: { max_tokens: 20 } })).text();
  const parent = await detail('t1');
  const [child] = [await detail('t2')];
  expect(child['tokens']).toMatchObject({ completion: expect.any(Number) });
  expect(parent).toMatchObject({ state: 'failed', outcome: 'budget' });
});
