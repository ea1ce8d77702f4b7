/** Conversations with a task, approvals within it, and tasks that go on after a restart: a real host over a scripted model. */
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { type Line, openConversationWorld } from '../support/conversation-world.ts';
import { until } from '../support/until.ts';

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function startWorld(...args: Parameters<typeof openConversationWorld>) {
  const world = await openConversationWorld(...args);
  closers.push(() => world.end());
  return world;
}

const write = (path: string, content: string) => ({
  calls: [{ name: 'fs_write', arguments: { intent: 'to try it', path, content } }],
});
const read = (path: string) => ({ calls: [{ name: 'fs_read', arguments: { path } }] });
/** Events without their text in pieces. */
const typesOf = (lines: readonly Line[]) => lines.map(({ type }) => type).filter((type) => type !== 'delta');
const resultsOf = (lines: readonly Line[]) =>
  lines.flatMap((line) => (line.type === 'tool_result' ? [[line['ok'], line['output']]] : []));

describe('a conversation', () => {
  it('goes on with everything that was said and staged, also on a host that was started again', async () => {
    const { task, call, json, linesOf, gateway, detail, folder, stop, start } = await startWorld([
      { ...write('a.txt', 'one\n'), reasoning: 'I write.' },
      { text: 'Staged.' },
      read('a.txt'),
      { text: 'It says one.' },
      { text: 'More.' },
      { text: 'Bye.' },
    ]);
    expect(typesOf(await linesOf(await task('Write a.')))).toEqual([
      'start',
      'turn',
      'reasoning',
      'usage',
      'tool_call',
      'staged',
      'tool_result',
      'turn',
      'usage',
      'answer',
    ]);
    const sent = await call('POST', '/tasks/t1/messages', { prompt: 'Read it.' }, { 'idempotency-key': 'k' });
    expect(sent.headers.get('x-svc-session-secret')).toMatch(/\S/);
    const lines = await linesOf(sent);
    expect(lines[0]).toMatchObject({ type: 'message', part: 2, prompt: 'Read it.' });
    expect(typesOf(lines)).toEqual([
      'message',
      'turn',
      'usage',
      'tool_call',
      'tool_result',
      'turn',
      'usage',
      'answer',
    ]);
    expect(lines.flatMap((line) => (line.type === 'turn' ? [line['n']] : []))).toEqual([3, 4]);
    // The file is not there: it reads what it staged.
    expect(existsSync(join(folder, 'a.txt'))).toBe(false);
    expect(resultsOf(lines)).toEqual([[true, expect.stringContaining('one')]]);
    expect(gateway.requests[2]?.body.messages).toMatchObject([
      { role: 'system', content: 'Work.' },
      { role: 'user', content: 'Write a.' },
      { role: 'assistant', content: null, reasoning: 'I write.', tool_calls: [{}] },
      { role: 'tool' },
      { role: 'assistant', content: 'Staged.' },
      { role: 'user', content: 'Read it.' },
    ]);

    const repeat = () =>
      call('POST', '/tasks/t1/messages', { prompt: 'Read it.' }, { 'idempotency-key': 'k' });
    expect((await linesOf(await repeat())).map(({ seq }) => seq)).toEqual(lines.map(({ seq }) => seq));
    const other = await call('POST', '/tasks/t1/messages', { prompt: 'No.' }, { 'idempotency-key': 'k' });
    expect(other.status).toBe(409);

    await stop();
    await start();
    // A replay of one part has no later ones.
    await linesOf(await call('POST', '/tasks/t1/messages', { prompt: 'More.' }));
    expect((await linesOf(await repeat())).map(({ seq }) => seq)).toEqual(lines.map(({ seq }) => seq));
    const last = await linesOf(await call('POST', '/tasks/t1/messages', { prompt: 'Bye.' }));
    expect(last.at(-1)).toMatchObject({ type: 'answer', text: 'Bye.' });
    expect(gateway.requests.at(-1)?.body.messages.map(({ role }) => role)).toEqual([
      'system',
      'user',
      'assistant',
      'tool',
      'assistant',
      'user',
      'assistant',
      'tool',
      'assistant',
      'user',
      'assistant',
      'user',
    ]);
    expect(await detail('t1')).toMatchObject({ state: 'completed', parts: 4, answer: 'Bye.', ok: true });
    const { sessions } = (await json('GET', '/sessions')).body as {
      sessions: { id: string; kind: string }[];
    };
    expect(sessions.filter(({ kind }) => kind === 'task').map(({ id }) => id)).toEqual(['t1']);
    const { body: listed } = await json('GET', '/tasks?state=completed');
    expect(listed).toMatchObject({ tasks: [{ id: 't1', agent: 'worker', parts: 4 }] });
    for (const id of ['t1', 't1.2', 't1.4'])
      expect((await json('GET', `/sessions/${id}/receipt`)).body).toMatchObject({
        id,
        kind: 'task',
        outcome: 'completed',
      });
  });

  it('follows AGENTS.md of its folder', async () => {
    const { task, linesOf, folder, gateway } = await startWorld([{ text: 'Yes.' }]);
    writeFileSync(join(folder, 'AGENTS.md'), 'Be brief.\n');
    await linesOf(await task('Hi.'));
    expect(gateway.requests[0]?.body.messages[0]).toEqual({
      role: 'system',
      content: 'Work.\n\nAGENTS.md of the working folder:\nBe brief.\n',
    });
  });

  it('refuses what cannot go on, each with its reason', async () => {
    const { task, json, linesOf, call } = await startWorld([{ text: 'Hi.' }, { hang: true }]);
    await linesOf(await task('Hi.'));
    const misspelt = await json('POST', '/tasks/t1/messages', { promt: 'x', limits: { max_turns: 0 } });
    expect(misspelt.status).toBe(400);
    expect(JSON.stringify(misspelt.body)).toContain('prompt');
    expect(JSON.stringify(misspelt.body)).toContain('limits.max_turns');
    expect((await json('POST', '/tasks/t9/messages', { prompt: 'x' })).status).toBe(404);
    expect((await json('GET', '/tasks?state=done')).status).toBe(400);
    const running = await call('POST', '/tasks/t1/messages', { prompt: 'Go on.' });
    const refused = await json('POST', '/tasks/t1/messages', { prompt: 'x' });
    expect([refused.status, JSON.stringify(refused.body)]).toEqual([
      409,
      expect.stringContaining('task_running'),
    ]);
    expect((await json('POST', '/tasks/t1/stop')).status).toBe(200);
    await running.body?.cancel();
  });

  it('tells the agent what became of a change that a stop left waiting', async () => {
    const { task, json, linesOf, call, waiting, gateway } = await startWorld(({ body: { messages } }) => {
      const [, path] = /Write (\S+)/.exec(messages.at(-1)?.content ?? '') ?? [];
      return messages.at(-1)?.role === 'user' && path !== undefined
        ? write(path, 'one\n')
        : { text: 'Well.' };
    });
    const response = await task('Write a.txt', { approvals: 'wait' });
    const change = await waiting('t1');
    await json('POST', '/tasks/t1/stop');
    await response.body?.cancel();
    await linesOf(await call('POST', '/tasks/t1/messages', { prompt: 'Then?' }));
    expect(gateway.requests.at(-1)?.body.messages[3]?.content).toContain(
      `still waits for a person (${change})`,
    );
    const again = await call('POST', '/tasks/t1/messages', { prompt: 'Write b.txt', approvals: 'wait' });
    const second = await waiting('t1');
    await Promise.all([json('POST', `/pending/${second}/approve`), json('POST', '/tasks/t1/stop')]);
    await again.body?.cancel();
    await linesOf(await call('POST', '/tasks/t1/messages', { prompt: 'Then?' }));
    const told = gateway.requests
      .at(-1)
      ?.body.messages.filter(({ role }) => role === 'tool')
      .at(-1)?.content;
    expect(told).toMatch(/Created|was made|is being made|was not finished/);
  });

  it('outlives any number of restarts while it waits', async () => {
    const { task, json, waiting, detail, stop, start } = await startWorld([
      write('a.txt', 'one\n'),
      { text: 'Done.' },
    ]);
    const response = await task('Write.', { approvals: 'wait' });
    const change = await waiting('t1');
    for (let restart = 0; restart < 12; restart++) {
      await stop();
      await start();
      expect(await waiting('t1')).toBe(change);
    }
    await response.text().catch(() => '');
    await json('POST', `/pending/${change}/approve`);
    await until(async () => (await detail('t1'))['state'] === 'completed');
  });

  it('answers calls that a stop left open, so that its model is not confused', async () => {
    const { task, json, linesOf, call, gateway } = await startWorld(
      ({ body: { messages } }) =>
        messages.at(-1)?.content === 'Then?'
          ? { text: 'I was stopped.' }
          : {
              calls: [
                { name: 'run_command', arguments: { intent: 'x', argv: ['sleep', '60'] } },
                { name: 'fs_list', arguments: { path: '.' } },
              ],
            },
      { autoApprove: ['run_command'] },
    );
    const response = await task('Sleep.');
    await until(async () =>
      JSON.stringify((await json('GET', '/tasks/t1')).body).includes('calls run_command'),
    );
    await json('POST', '/tasks/t1/stop');
    await response.body?.cancel();
    const lines = await linesOf(await call('POST', '/tasks/t1/messages', { prompt: 'Then?' }));
    expect(lines.at(-1)).toMatchObject({ type: 'answer', text: 'I was stopped.' });
    expect(gateway.requests.at(-1)?.body.messages.map(({ role, content }) => [role, content])).toEqual([
      ['system', 'Work.'],
      ['user', 'Sleep.'],
      ['assistant', null],
      ['tool', expect.stringContaining('not finished')],
      ['tool', expect.stringContaining('not finished')],
      ['user', 'Then?'],
    ]);
  });
});

describe('a task with approvals: wait', () => {
  it('tells the agent what a person changed in its text', async () => {
    const { task, call, json, linesOf, waiting, folder } = await startWorld([
      write('a.txt', 'one\ntwo\n'),
      { text: 'Done.' },
    ]);
    const response = await task('Write.', { approvals: 'wait' });
    const change = await waiting('t1');
    expect((await json('GET', `/pending/${change}`)).body).toMatchObject({ content: 'one\ntwo\n' });
    const bad = await json('POST', `/pending/${change}/edit`, { contents: 'x' });
    expect([bad.status, JSON.stringify(bad.body)]).toEqual([400, expect.stringContaining('content')]);
    expect((await json('POST', `/pending/${change}/edit`, { content: 'a\0' })).status).toBe(400);
    expect((await call('POST', `/pending/${change}/edit`, { content: 'one\n2\n' })).status).toBe(200);
    const { body } = await json('GET', `/pending/${change}`);
    expect(body).toMatchObject({ content: 'one\n2\n', diff: expect.stringContaining('+2'), state: 'staged' });
    expect((await call('POST', `/pending/${change}/approve`)).status).toBe(200);
    const [[ok, output] = []] = resultsOf(await linesOf(response));
    expect([ok, output]).toEqual([
      true,
      expect.stringMatching(/A person changed your text first:[\s\S]*-two\n\+2/),
    ]);
    expect(readFileSync(join(folder, 'a.txt'), 'utf8')).toBe('one\n2\n');
    expect((await call('POST', `/pending/${change}/edit`, { content: 'x' })).status).toBe(409);
  });

  it('goes on with the outcome: made, or declined with its note', async () => {
    const { task, json, linesOf, waiting, folder, gateway } = await startWorld([
      write('a.txt', 'one\n'),
      write('b.txt', 'two\n'),
      { text: 'Done.' },
    ]);
    const response = await task('Write.', { approvals: 'wait' });
    const first = await waiting('t1');
    const { sessions } = (await json('GET', '/sessions')).body as { sessions: object[] };
    expect(sessions).toContainEqual(
      expect.objectContaining({ id: 't1', state: 'running', waiting_on: 'approval' }),
    );
    expect((await json('POST', `/pending/${first}/approve`)).status).toBe(200);
    await until(async () => (await waiting('t1')) !== first);
    const second = await waiting('t1');
    expect((await json('POST', `/pending/${second}/discard`, { note: 'Not b.' })).status).toBe(200);
    const lines = await linesOf(response);
    expect(typesOf(lines).filter((type) => !['turn', 'usage'].includes(type))).toEqual([
      'start',
      'tool_call',
      'staged',
      'waiting',
      'tool_result',
      'tool_call',
      'staged',
      'waiting',
      'tool_result',
      'answer',
    ]);
    expect(resultsOf(lines)).toEqual([
      [true, expect.stringContaining('Created')],
      [false, expect.stringContaining('They wrote: Not b.')],
    ]);
    expect(gateway.requests.at(-1)?.body.messages.at(-1)?.content).toContain('Not b.');
    expect(readFileSync(join(folder, 'a.txt'), 'utf8')).toBe('one\n');
    expect(existsSync(join(folder, 'b.txt'))).toBe(false);
  });

  it.each(['SIGKILL', 'SIGTERM'])('survives %s while it waits, and does nothing twice', async (signal) => {
    const { task, json, waiting, events, detail, folder, gateway, kill, stop, start } = await startWorld([
      write('a.txt', 'one\n'),
      { text: 'Done.' },
    ]);
    const response = await task('Write.', { approvals: 'wait' });
    const change = await waiting('t1');
    await (signal === 'SIGKILL' ? kill() : stop());
    await response.text().catch(() => '');
    await start();
    expect(await waiting('t1')).toBe(change);
    expect((await json('POST', `/pending/${change}/approve`)).status).toBe(200);
    await until(async () => (await detail('t1'))['state'] === 'completed');
    const lines = await events('t1');
    expect(typesOf(lines)).toEqual([
      'start',
      'turn',
      'usage',
      'tool_call',
      'staged',
      'waiting',
      'resumed',
      'waiting',
      'tool_result',
      'turn',
      'usage',
      'answer',
    ]);
    expect(lines.map(({ seq }) => seq)).toEqual(lines.map((_, index) => index));
    expect(lines.at(-1)).toMatchObject({ text: 'Done.', turns: 2 });
    expect(gateway.requests).toHaveLength(2);
    expect(readFileSync(join(folder, 'a.txt'), 'utf8')).toBe('one\n');
  });
});

describe('a task of a host that was killed', () => {
  it('asks its model again, and makes no finished call again', async () => {
    let isFirst = true;
    const { task, events, detail, gateway, kill, start, folder } = await startWorld(
      ({ body: { messages } }) => {
        if (messages.at(-1)?.role === 'user') return read('note.txt');
        if (!isFirst) return { text: 'It says hello.' };
        isFirst = false;
        return { hang: true };
      },
    );
    writeFileSync(join(folder, 'note.txt'), 'hello\n');
    const response = await task('Read the note.');
    await until(() => gateway.requests.length === 2);
    await kill();
    await response.text().catch(() => '');
    await start();
    await until(async () => (await detail('t1'))['state'] !== 'running');
    const lines = await events('t1');
    expect(typesOf(lines)).toEqual([
      'start',
      'turn',
      'usage',
      'tool_call',
      'tool_result',
      'turn',
      'resumed',
      'turn',
      'usage',
      'answer',
    ]);
    expect(lines.at(-1)).toMatchObject({ text: 'It says hello.', turns: 2 });
    expect(gateway.requests[2]?.body.messages).toEqual(gateway.requests[1]?.body.messages);
  });

  it('is told of a command that may have run, and does not run it again', async () => {
    const { task, events, detail, gateway, kill, start, folder } = await startWorld(
      ({ body: { messages } }) =>
        messages.at(-1)?.role === 'user'
          ? {
              calls: [
                {
                  name: 'run_command',
                  arguments: { intent: 'x', argv: ['sh', '-c', 'echo x >> log; sleep 60'] },
                },
              ],
            }
          : { text: 'I looked.' },
      { autoApprove: ['run_command'] },
    );
    mkdirSync(folder, { recursive: true });
    const response = await task('Run it.');
    await until(() => existsSync(join(folder, 'log')));
    await kill();
    await response.text().catch(() => '');
    await start();
    await until(async () => (await detail('t1'))['state'] !== 'running');
    expect(resultsOf(await events('t1'))).toEqual([
      [false, expect.stringContaining('look before you repeat it')],
    ]);
    expect(gateway.requests.at(-1)?.body.messages.at(-1)?.content).toContain('may have been done');
    expect(readFileSync(join(folder, 'log'), 'utf8')).toBe('x\n');
  });

  it('asks whether to repeat a command that may have run, where changes wait for a person', async () => {
    const { task, events, detail, json, waiting, kill, start, folder } = await startWorld(
      ({ body: { messages } }) =>
        messages.at(-1)?.role === 'user'
          ? {
              calls: [
                {
                  name: 'run_command',
                  arguments: { intent: 'x', argv: ['sh', '-c', 'echo x >> log; test -f go || sleep 60'] },
                },
              ],
            }
          : { text: 'I looked.' },
      { autoApprove: ['run_command'] },
    );
    mkdirSync(folder, { recursive: true });
    const log = () => readFileSync(join(folder, 'log'), 'utf8');
    for (const decision of ['approve', 'discard']) {
      const response = await task('Run it.', { approvals: 'wait' });
      const id = decision === 'approve' ? 't1' : 't2';
      await until(() => existsSync(join(folder, 'log')));
      await kill();
      await response.text().catch(() => '');
      await start();
      const question = await waiting(id);
      expect((await json('GET', `/pending/${question}`)).body).toMatchObject({
        tool: 'repeat_call',
        task_id: id,
        risk: 'high',
        summary: expect.stringContaining('run_command'),
      });
      // The question outlives the host, too.
      await kill();
      await start();
      expect(await waiting(id)).toBe(question);
      expect(log()).toBe('x\n');
      writeFileSync(join(folder, 'go'), '');
      expect((await json('POST', `/pending/${question}/${decision}`)).status).toBe(200);
      await until(async () => (await detail(id))['state'] === 'completed');
      const [[ok, output] = [], ...rest] = resultsOf(await events(id));
      expect(rest).toEqual([]);
      expect(ok).toBe(decision === 'approve');
      if (decision === 'discard') expect(output).toContain('A person did not let it be made again');
      expect(log()).toBe(decision === 'approve' ? 'x\nx\n' : 'x\n');
      for (const name of ['log', 'go']) rmSync(join(folder, name));
    }
  });

  it('ends where its agent is gone', async () => {
    const { task, detail, call, json, kill, start, gateway } = await startWorld([{ hang: true }]);
    const response = await task('Go.');
    await until(() => gateway.requests.length === 1);
    await call('DELETE', '/agents/worker');
    await kill();
    await response.text().catch(() => '');
    await start();
    await until(async () => (await detail('t1'))['state'] === 'failed');
    expect(await detail('t1')).toMatchObject({
      outcome: 'error',
      message: expect.stringContaining("no agent 'worker'"),
    });
    expect((await json('GET', '/sessions/t1/receipt')).body).toMatchObject({ outcome: 'failed' });
  });
});
