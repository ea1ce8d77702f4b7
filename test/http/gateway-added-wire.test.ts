/** docs/add-a-provider.md: its new wire, added to a copy of the sources, is served and billed. */
import { execFile, spawn } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { repository } from '../support/host.ts';
import { serve } from '../support/local-server.ts';

const run = promisify(execFile);
const registry = 'src/wires/providers.ts';
const undo: (() => unknown)[] = [];
const folder = mkdtempSync(join(tmpdir(), 'lathe-wire-'));
undo.push(() => rmSync(folder, { recursive: true, force: true }));
afterAll(async () => {
  for (const step of undo.toReversed()) await step();
});

interface Sent {
  readonly path: string | undefined;
  readonly headers: object;
  readonly body: { readonly texts: readonly string[]; readonly stream: boolean };
}
const requests: Sent[] = [];
let gateway = '';
let key = '';

/** A provider that speaks the page's wire. The text `cut` ends a stream before its tokens, `fail` is refused. */
async function plainProvider(): Promise<string> {
  const provider = await serve((request, response) => {
    void text(request).then((json) => {
      const body = JSON.parse(json) as Sent['body'];
      requests.push({ path: request.url, headers: request.headers, body });
      if (body.texts.includes('fail')) return response.writeHead(422).end('no such words');
      if (!body.stream) return response.end('{"text": "Hello.", "tokens": [5, 2]}');
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('data: {"text":"Hel"}\n\ndata: {"text":"lo."}\n\n');
      return response.end(body.texts.includes('cut') ? '' : 'data: {"tokens":[5,2]}\n\n');
    });
  });
  undo.push(() => provider.close());
  return provider.url;
}

beforeAll(async () => {
  for (const part of ['kernels', 'wgsl', 'src', 'package.json', 'tsconfig.json'])
    cpSync(join(repository, part), join(folder, part), { recursive: true });
  symlinkSync(join(repository, 'node_modules'), join(folder, 'node_modules'));
  const page = readFileSync(join(repository, 'docs/add-a-provider.md'), 'utf8');
  for (const [, path = '', block = ''] of page.matchAll(/^`([\w./-]+)`:\n\n```ts\n(.*?)^```/gms)) {
    if (path === registry) continue;
    mkdirSync(join(folder, dirname(path)), { recursive: true });
    writeFileSync(join(folder, path), block);
  }
  const [, line = '', entry = ''] =
    /^```ts\n(import [^\n]*\n)```\n\n```ts\n( {2}[^\n]*\n)```/m.exec(page) ?? [];
  const before = readFileSync(join(folder, registry), 'utf8');
  writeFileSync(
    join(folder, registry),
    `${line}${before.replace('export const providerWires = {\n', (start) => start + entry)}`,
  );

  writeFileSync(
    join(folder, 'gateway.toml'),
    `database = "sqlite:gateway.db"
[[providers]]
id = "own"
wire = "plain"
base_url = "${await plainProvider()}/v2"
api_key_env = "PLAIN_KEY"
[[models]]
id = "m"
provider = "own"
upstream = "theirs"
family = "plain"
caps = ["chat", "tools"]
context_window = 1000
max_output_tokens = 100
in_usd_per_mtok = "1"
out_usd_per_mtok = "4"
[[models]]
id = "embedder"
provider = "own"
family = "plain"
caps = ["embeddings"]
context_window = 1000
in_usd_per_mtok = "1"
out_usd_per_mtok = "1"
`,
  );
  const env = { ...process.env, PLAIN_KEY: 'sk-0123456789abcdef' };
  const program = (...words: string[]) =>
    run(process.execPath, ['src/gateway.ts', ...words], { cwd: folder, env });
  await program('account', 'create', 'acme', '--credit-usd', '1');
  key = (await program('key', 'create', '--account', 'acme')).stdout.trim();
  const serving = spawn(process.execPath, ['src/gateway.ts', 'serve', '--port', '0'], { cwd: folder, env });
  undo.push(() => serving.kill());
  for await (const printed of createInterface(serving.stdout)) {
    const url = /ready on (http:\/\/[^\s:]+:\d+)/.exec(printed)?.[1];
    if (url === undefined) continue;
    gateway = url;
    return;
  }
  throw new Error(`the gateway ended: ${await text(serving.stderr)}`);
});

async function ask(path: string, body: object) {
  const response = await fetch(`${gateway}/v1/${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'm', ...body }),
  });
  return {
    status: response.status,
    cost: response.headers.get('x-svc-cost-nanousd'),
    text: await response.text(),
  };
}
const messagesOf = (content: string) => [{ role: 'user', content }];

it('serves chat and responses, with its headers, and is billed by its tokens', async () => {
  const chat = await ask('chat/completions', { messages: messagesOf('Hi.') });
  expect(chat.cost).toBe('13000');
  expect(JSON.parse(chat.text)).toMatchObject({
    choices: [{ message: { content: 'Hello.' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 5, completion_tokens: 2 },
  });
  expect(requests.at(-1)).toMatchObject({
    path: '/v2/complete',
    headers: { 'x-plain-key': 'sk-0123456789abcdef', 'x-plain-version': '2' },
    body: { model: 'theirs', texts: ['Hi.'], stream: false },
  });
  expect(JSON.parse((await ask('responses', { input: 'Hi.' })).text)).toMatchObject({
    output: [{ content: [{ text: 'Hello.' }] }],
  });
});

it('serves streams, and an incomplete one ends with an error', async () => {
  const whole = await ask('chat/completions', { messages: messagesOf('Hi.'), stream: true });
  expect(whole.text).toMatch(/"content":"Hel".*"content":"lo\.".*"finish_reason":"stop".*\[DONE\]/s);
  const cut = await ask('chat/completions', { messages: messagesOf('cut'), stream: true });
  expect(cut.text).toMatch(/"content":"Hel".*The provider sent no complete answer/s);
});

it('refuses what its provider cannot do', async () => {
  const tools = [{ type: 'function', function: { name: 'f', parameters: { type: 'object' } } }];
  expect(await ask('chat/completions', { messages: messagesOf('Hi.'), tools })).toMatchObject({
    status: 400,
    text: expect.stringContaining('This provider has no tools.') as string,
  });
  expect((await ask('chat/completions', { messages: messagesOf('fail') })).text).toContain('no such words');
  expect(await ask('embeddings', { model: 'embedder', input: 'Hi.' })).toMatchObject({
    status: 400,
    text: expect.stringContaining('has no embeddings') as string,
  });
});

it.runIf(existsSync(join(repository, 'node_modules/.bin/tsc')))('passes the type check', async () => {
  writeFileSync(
    join(folder, 'tsconfig.wire.json'),
    JSON.stringify({ extends: './tsconfig.json', include: [], files: [registry] }),
  );
  const { stdout } = await run('node_modules/.bin/tsc', ['--noEmit', '-p', 'tsconfig.wire.json'], {
    cwd: folder,
  }).catch((error: unknown) => error as { stdout: string });
  expect(stdout).toBe('');
});
