/**
 * Random kills of a host with conversations, waiting approvals, running commands, sub-agents and parallel steps in flight:
 * nothing acknowledged is lost, no effect happens twice unasked, no task or run fails because of a kill. `LATHE_TEST_KILLS` sets the number of kills.
 */
import { existsSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { Lathe, LatheError, TaskAborted } from '../../src/client/index.ts';
import { freshDataDir, type HostProcess, startSource } from '../support/host.ts';
import { seededRandom } from '../../src/util/random.ts';
import { scriptedOpenAi } from '../support/scripted-openai.ts';

const kills = Number(process.env['LATHE_TEST_KILLS'] ?? 4);
const seed = Number(process.env['LATHE_TEST_SEED'] ?? Date.now() % 1_000_000);
const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

/** Processes with a text in their command line, but this one. */
const processesWith = (text: string): string[] =>
  readdirSync('/proc').filter((pid) => {
    try {
      return (
        /^\d+$/.test(pid) &&
        Number(pid) !== process.pid &&
        readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes(text)
      );
    } catch {
      // It has ended.
      return false;
    }
  });

it(`${kills} kills`, { timeout: 60_000 + kills * 20_000 }, async () => {
  const random = seededRandom(seed);
  const folder = mkdtempSync(join(tmpdir(), 'lathe-kills-'));
  const gateway = await scriptedOpenAi(({ body: { messages } }) => {
    const at = messages.findLastIndex(({ role }) => role === 'user');
    const [, verb, name = ''] = /(write|lead) (\S+)/.exec(messages[at]?.content ?? '') ?? [];
    const turns = messages.slice(at).filter(({ role }) => role === 'assistant').length;
    const chunkMs = Math.floor(random() * 40);
    if (verb === 'lead') {
      const parts = ['a', 'b'].map((part) => ({
        name: 'delegate',
        arguments: { prompt: `write ${name}-${part}` },
      }));
      return turns === 0 ? { chunkMs, calls: parts } : { chunkMs, text: `Done with ${name}.` };
    }
    if (turns === 0) return { chunkMs, calls: [{ name: 'fs_list', arguments: { path: '.' } }] };
    // Appending shows whether it ran twice.
    const script = `echo ${name} >> ${name}.log`;
    if (turns === 1)
      return {
        chunkMs,
        calls: [{ name: 'run_command', arguments: { intent: 'x', argv: ['sh', '-c', script] } }],
      };
    return { chunkMs, text: `Done with ${name}.` };
  });
  closers.push(() => gateway.close());
  const config = join(mkdtempSync(join(tmpdir(), 'lathe-kills-')), 'lathe.toml');
  writeFileSync(config, `[gateway]\nurl = "${gateway.url}"\n`);
  const dataDir = freshDataDir();
  let host: HostProcess;
  let port = '0';
  const start = async () => {
    host = startSource([
      '--config',
      config,
      '--data-dir',
      dataDir,
      '--port',
      port,
      '--enable-workflow',
      'both',
    ]);
    port = new URL(await host.url()).port;
  };
  await start();
  closers.push(() => host.end());
  const lathe = new Lathe({ url: `http://127.0.0.1:${port}` });
  const grants = { tools: ['fs_*', 'run_command', 'delegate'], read: [], write: [folder], network: [] };
  for (const [name, auto_approve] of [
    ['asks', []],
    ['runs', ['run_command']],
  ] as const)
    await lathe.agents.put({
      name,
      instructions: 'W.',
      model: 'm',
      grants: { ...grants, auto_approve: [...auto_approve] },
    });

  const workflow = `[ensemble]
name = "both"
parallel = 3
[inputs.names]
type = "array"
[agents.a]
instructions = "W."
model = "m"
[agents.a.grants]
tools = ["fs_*", "run_command"]
write = [${JSON.stringify(folder)}]
[workspace]
input = "folder"
[inputs.folder]
type = "string"
[[steps]]
id = "each"
agent = "a"
foreach = "inputs.names"
prompt = "write {{item}}"
[[steps]]
id = "beside"
agent = "a"
prompt = "write {{inputs.names.0}}-beside"
[[steps]]
id = "join"
needs = ["each", "beside"]
agent = "a"
prompt = "write {{inputs.names.0}}-join"
`;
  const base = `http://127.0.0.1:${port}/agent/v1`;
  const stored = await fetch(`${base}/workflows`, {
    method: 'POST',
    headers: { 'content-type': 'text/plain' },
    body: workflow,
  });
  expect(stored.status).toBe(201);

  let isDone = false;
  const ended: string[] = [];
  const failures: string[] = [];
  /** Retries what a kill interrupts; what the host refuses is an error. */
  const insist = async <T>(what: () => Promise<T>): Promise<T> => {
    for (;;) {
      try {
        return await what();
      } catch (error) {
        if (!(error instanceof LatheError) || !(error.isTransient || error.code === 'being_applied'))
          throw error;
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    }
  };
  /** One person: a conversation of three parts, again and again. */
  const person = async (which: number): Promise<void> => {
    const agent = which % 2 === 0 ? 'asks' : 'runs';
    const verb = which > 1 ? 'lead' : 'write';
    for (let round = 0; !isDone; round++) {
      let id: string | undefined;
      for (let part = 0; part < 3; part++) {
        const name = `w${which}-${round}-${part}`;
        // At once after the last event.
        const prompt = `${verb} ${name}`;
        const idempotencyKey = name;
        const task = await insist(() =>
          id === undefined
            ? lathe.tasks.start({ agent, cwd: folder, prompt, approvals: 'wait' }, { idempotencyKey })
            : lathe.tasks.send(id, { prompt }, { idempotencyKey }),
        );
        id = task.id;
        let last = -1;
        try {
          for await (const event of task) {
            if (last >= 0 && event.seq !== last + 1) failures.push(`${id}: ${event.seq} after ${last}`);
            last = event.seq;
            if (event.type === 'aborted') failures.push(`${id} ${event.reason}: ${event.message}`);
          }
          const detail = await insist(() => lathe.tasks.get(id ?? ''));
          if (detail.parts < part + 1 || detail.answer !== `Done with ${name}.`)
            failures.push(`${id}: part ${part + 1}, ${detail.parts}, ${detail.answer}`);
          ended.push(...(verb === 'lead' ? [`${name}-a`, `${name}-b`] : [name]));
        } catch (error) {
          if (!(error instanceof TaskAborted)) throw error;
        }
      }
    }
  };
  /** One person who decides: a call that may have been made is made again only where it was not. */
  const decide = async (): Promise<void> => {
    for (;;) {
      for (const { id, tool, summary } of await insist(() => lathe.pending.list())) {
        const [, name = ''] = />> (\S+)\.log/.exec(summary) ?? [];
        const isMade = tool === 'repeat_call' && existsSync(join(folder, `${name}.log`));
        await insist(() => (isMade ? lathe.pending.discard(id) : lathe.pending.approve(id))).catch(
          (error: unknown) => {
            // A command that was running when the host was killed is not run again.
            if (!(error instanceof LatheError && [404, 409].includes(error.status ?? 0))) throw error;
          },
        );
      }
      if (isOver) return;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  };
  /** Runs of a workflow with steps side by side, one after another. */
  const runs = async (): Promise<void> => {
    const json = async (path: string, init: RequestInit = {}) =>
      await insist(async () => {
        const response = await fetch(base + path, init).catch((cause: unknown) => {
          throw new LatheError('unreachable', 'the host is away', { cause });
        });
        const text = await response.text().catch(() => '');
        if (response.status === 503) throw new LatheError('unreachable', text);
        return { status: response.status, text };
      });
    for (let round = 0; !isDone; round++) {
      const names = [`r${round}-x`, `r${round}-y`];
      const { text } = await json('/workflows/both/runs', {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'idempotency-key': `run ${round}` },
        body: JSON.stringify({ inputs: { names, folder } }),
      });
      const id = /"run_id":"(r\d+)"/.exec(text)?.[1];
      if (id === undefined) {
        round -= 1;
        continue;
      }
      for (;;) {
        const run = JSON.parse((await json(`/runs/${id}`)).text) as { state: string; last_event?: string };
        if (run.state === 'completed') break;
        if (!['running', 'suspended'].includes(run.state)) {
          failures.push(`${id} ${run.state}: ${run.last_event}`);
          break;
        }
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
      ended.push(...names, `r${round}-x-beside`, `r${round}-x-join`);
    }
  };
  let isOver = false;
  const decisions = decide();
  const people = Promise.all([...[0, 1, 2, 3].map(person), runs()]);
  for (let kill = 0; kill < kills; kill++) {
    await new Promise((resolve) => setTimeout(resolve, 200 + random() * 2500));
    host!.kill('SIGKILL');
    await host!.exit;
    await start();
  }
  isDone = true;
  await people;
  isOver = true;
  await decisions;
  expect(failures, `seed ${seed}`).toEqual([]);
  expect(ended.length).toBeGreaterThan(4);
  // No command ran twice. One that a kill hit may not have run, and its task knows.
  let missing = 0;
  for (const name of ended) {
    const log = join(folder, `${name}.log`);
    if (!existsSync(log)) missing += 1;
    else expect([name, readFileSync(log, 'utf8')]).toEqual([name, `${name}\n`]);
  }
  expect(missing).toBeLessThanOrEqual(kills * 8);
  const running = await lathe.tasks.list({ state: 'running' });
  expect(running).toEqual([]);
  // The next start ends what a killed host leaves behind.
  host!.kill('SIGKILL');
  await host!.exit;
  await start();
  await expect.poll(() => processesWith(folder)).toEqual([]);
});
