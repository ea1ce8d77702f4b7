/** A real host over a scripted model that tests end and start again over the same data, with one agent. */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import { freshDataDir, type HostProcess, startSource } from './host.ts';
import { type OpenAiScript, scriptedOpenAi } from './scripted-openai.ts';
import { until } from './until.ts';

export interface Line {
  readonly type: string;
  readonly seq: number;
  readonly [member: string]: unknown;
}
type Body = Readonly<Record<string, unknown>>;

/** A host that can be ended and started again over the same data, its agent `worker`, and the agent's folder. */
export async function openConversationWorld(
  script: OpenAiScript,
  { autoApprove = [] as string[], tables = '', flags = [] as string[] } = {},
) {
  const gateway = await scriptedOpenAi(script);
  const dataDir = freshDataDir();
  const folder = mkdtempSync(join(tmpdir(), 'lathe-conversation-'));
  const config = join(mkdtempSync(join(tmpdir(), 'lathe-conversation-')), 'lathe.toml');
  writeFileSync(config, `[gateway]\nurl = "${gateway.url}"\n${tables}`);
  let host: HostProcess;
  let base = '';
  const start = async () => {
    host = startSource(['--config', config, '--data-dir', dataDir, '--port', '0', ...flags]);
    base = `${await host.url()}/agent/v1`;
  };
  await start();
  const call = async (
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
    text?: string,
  ) =>
    fetch(base + path, {
      ...(text === undefined ? {} : { body: text }),
      method,
      headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  const json = async (method: string, path: string, body?: unknown) => {
    const response = await call(method, path, body);
    return { status: response.status, body: (await response.json()) as Body };
  };
  const linesOf = async (response: Response): Promise<Line[]> => {
    expect(response.status).toBe(200);
    return (await response.text())
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Line);
  };
  const agent = {
    name: 'worker',
    instructions: 'Work.',
    model: 'scripted',
    grants: { tools: ['fs_*', 'run_command'], read: [folder], write: [folder], auto_approve: autoApprove },
  };
  expect((await call('POST', '/agents', agent)).status).toBe(201);
  return {
    gateway,
    folder,
    dataDir,
    call,
    json,
    linesOf,
    task: (prompt: string, more: object = {}) =>
      call('POST', '/tasks', { agent: 'worker', cwd: folder, prompt, ...more }),
    events: async (id: string) => linesOf(await call('GET', `/tasks/${id}/events`)),
    detail: async (id: string) => (await json('GET', `/tasks/${id}`)).body,
    /** The change that the task waits for. */
    waiting: async (id: string): Promise<string> => {
      let change = '';
      await until(async () => {
        const { waiting_on: on, turns } = (await json('GET', `/tasks/${id}`)).body;
        change = JSON.stringify(turns ?? []).match(/"pending_id":"(p\d+)"(?!.*"pending_id")/)?.[1] ?? '';
        return on === 'approval' && change !== '';
      });
      return change;
    },
    kill: async () => {
      host.kill('SIGKILL');
      await host.exit;
    },
    stop: async () => {
      host.kill('SIGTERM');
      await host.exit;
    },
    start,
    async end() {
      await host.end();
      await gateway.close();
    },
  };
}
