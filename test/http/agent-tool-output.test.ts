/** Output of commands in the stream of a task while they run, on a real host with a real sandbox. */
import { spawn } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text as readText } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Lathe, type TurnEvent } from '../../src/client/index.ts';
import { Bubblewrap } from '../../src/agent/tools/sandbox/bubblewrap.ts';
import { entryPath, freshDataDir, type HostProcess, startSource } from '../support/host.ts';
import { scriptedOpenAi } from '../support/scripted-openai.ts';

const hasSandbox = typeof (await Bubblewrap.probe()) !== 'string';
/** Goes on when a file is there: then the test has seen the first line. */
const script = 'echo first; while [ ! -e go ]; do sleep 0.05; done; echo second >&2; echo third';

describe.skipIf(!hasSandbox)('output of commands', () => {
  let gateway: Awaited<ReturnType<typeof scriptedOpenAi>>;
  let host: HostProcess;
  let url = '';
  const lathe = () => new Lathe({ url });

  beforeAll(async () => {
    gateway = await scriptedOpenAi(({ body: { messages } }) => {
      const turns = messages.filter(({ role }) => role === 'assistant').length;
      if (turns > 0) return { text: 'Done.' };
      return { calls: [{ name: 'run_command', arguments: { intent: 'x', argv: ['sh', '-c', script] } }] };
    });
    const config = join(mkdtempSync(join(tmpdir(), 'lathe-output-')), 'lathe.toml');
    writeFileSync(config, `[gateway]\nurl = "${gateway.url}"\n`);
    host = startSource(['--config', config, '--data-dir', freshDataDir(), '--port', '0']);
    url = await host.url();
  });
  afterAll(async () => {
    await host?.end();
    await gateway?.close();
  });

  const agent = async (name: string, auto_approve: string[]) => {
    const folder = mkdtempSync(join(tmpdir(), 'lathe-output-'));
    const grants = { tools: ['run_command'], read: [], write: [folder], network: [], auto_approve };
    await lathe().agents.put({ name, instructions: 'W.', model: 'm', grants });
    return folder;
  };

  it.each([
    ['its grants approve', ['run_command']],
    ['a person approves', []],
  ])('comes before the command has ended: %s', async (about, approve) => {
    const name = approve.length > 0 ? 'auto' : 'asks';
    const folder = await agent(name, approve);
    const before = gateway.requests.length;
    const task = await lathe().tasks.start({ agent: name, cwd: folder, prompt: about, approvals: 'wait' });
    const events: TurnEvent[] = [];
    let approved: Promise<unknown> | undefined;
    for await (const event of task) {
      events.push(event);
      if (event.type === 'waiting') approved = lathe().pending.approve(event.pending_id);
      if (event.type === 'tool_output' && event.text.includes('first')) {
        // It does not wait for a person any more.
        expect(await lathe().tasks.get(task.id)).not.toHaveProperty('waiting_on');
        writeFileSync(join(folder, 'go'), '');
      }
    }
    await approved;
    const types = events.map(({ type }) => type);
    const call = events.find((event) => event.type === 'tool_call');
    const outputs = events.filter((event) => event.type === 'tool_output');
    const result = events.find((event) => event.type === 'tool_result');
    expect(types.lastIndexOf('tool_output')).toBeLessThan(types.indexOf('tool_result'));
    expect(new Set(outputs.map(({ call_id }) => call_id))).toEqual(new Set([call?.call_id]));
    expect(outputs.map(({ text }) => text).join('')).toMatch(/^first\n(second\nthird|third\nsecond)\n$/);
    expect(result?.output).toMatch(/^exit code 0\nfirst\n/);
    // The model gets the result alone, once.
    const sent = gateway.requests.slice(before).at(-1)?.body.messages ?? [];
    expect(sent.filter(({ content }) => content?.includes('first\n'))).toHaveLength(1);
  });

  it('is shown in the terminal as it comes, and once', async () => {
    const folder = await agent('terminal', ['run_command']);
    const child = spawn(process.execPath, [entryPath('agent'), 'chat', 'go', '--agent', 'terminal'], {
      cwd: folder,
      env: { ...process.env, LATHE_URL: url, NO_COLOR: '1' },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let shown = '';
    child.stdout.setEncoding('utf8').on('data', (chunk: string) => (shown += chunk));
    const errors = readText(child.stderr);
    await expect.poll(() => shown).toMatch(/^first$/m);
    expect(shown).not.toMatch(/^third$/m);
    writeFileSync(join(folder, 'go'), '');
    expect(await new Promise((resolve) => child.on('close', resolve)), await errors).toBe(0);
    expect(shown).toMatch(/^first\n(second\nthird|third\nsecond)\n {2}exit code 0\nDone\.\n$/m);
  });
});
