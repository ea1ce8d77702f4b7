import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { fakeProvider } from '../support/gateway/provider.ts';
import { freshDataDir, gatewayProgram, type HostProcess, startScriptedHost } from '../support/host.ts';
import { runsRest } from '../support/tier.ts';

/** The command line beside the host, on the host's own database. */
const gateway = (dataDir: string, ...words: string[]) =>
  JSON.parse(
    execFileSync(process.execPath, [gatewayProgram, ...words, '--json'], {
      encoding: 'utf8',
      env: { ...process.env, LATHE_DATA_DIR: dataDir },
      cwd: dataDir,
    }),
  ) as Record<string, unknown>;

function keyOf(dataDir: string): string {
  gateway(dataDir, 'account', 'create', 'house', '--credit-usd', '1');
  return String(gateway(dataDir, 'key', 'create', '--account', 'house')['key']);
}

const question = [{ role: 'user' as const, content: 'Hello' }];

describe('the gateway of a host', () => {
  const dataDir = freshDataDir();
  let host: HostProcess;
  let url = '';
  let client: OpenAI;
  let provider: Awaited<ReturnType<typeof fakeProvider>>;

  beforeAll(async () => {
    provider = await fakeProvider([{ say: { text: 'From afar.', usage: { input: 10, output: 5 } } }]);
    const config = join(dataDir, 'gateway.toml');
    writeFileSync(
      config,
      `[[providers]]
id = "far"
wire = "anthropic-messages"
base_url = "${provider.baseUrl('anthropic-messages')}"
api_key_file = "far.key"
[[models]]
id = "far-1"
provider = "far"
family = "anthropic"
caps = ["chat"]
context_window = 1000
max_output_tokens = 100
in_usd_per_mtok = "3"
out_usd_per_mtok = "15"
[[fallbacks]]
model = "far-1"
to = ["resident"]
`,
    );
    writeFileSync(join(dataDir, 'far.key'), 'sk-ant-far-away-0123456789');
    host = startScriptedHost(['--gpu', '--port', '0', '--data-dir', dataDir, '--gateway-config', config]);
    url = `${await host.url()}/gateway/v1`;
    client = new OpenAI({ baseURL: url, apiKey: keyOf(dataDir), maxRetries: 0 });
  });
  afterAll(async () => {
    await host.end();
    await provider.close();
  });

  it('is one of its planes, and serves the resident model in addition to those of gateway.toml', async () => {
    const { planes } = (await (await fetch(url.replace('/gateway/v1', '/health'))).json()) as {
      planes: string[];
    };
    expect(planes).toContain('gateway');
    const { data } = (await (await fetch(`${url}/catalog`)).json()) as {
      data: { id: string; provider: string }[];
    };
    expect(data.map(({ id, provider: by }) => [id, by])).toEqual([
      ['far-1', 'far'],
      ['scripted', 'local'],
    ]);
  });

  it('answers with the resident model, free of charge, on every wire except messages', async () => {
    const { data, response } = await client.chat.completions
      .create({ model: 'scripted', messages: question })
      .withResponse();
    expect(data.choices[0]?.message.content).toBe('xxxx');
    expect(response.headers.get('x-svc-cost-nanousd')).toBe('0');
    expect(response.headers.get('x-svc-endpoint')).toBe('credits');
    const stream = await client.chat.completions.create({
      model: 'scripted',
      messages: question,
      stream: true,
    });
    let text = '';
    for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? '';
    expect(text).toBe('xxxx');
    const answer = await client.responses.create({ model: 'scripted', input: 'Hello' });
    expect(answer.output_text).toBe('xxxx');
    const legacy = await client.completions.create({ model: 'scripted', prompt: 'Hello' });
    expect(legacy.choices[0]?.text).toBe('xxxx');
    const routed = await client.chat.completions.create({ model: 'resident', messages: question });
    expect(routed.choices[0]?.message.content).toBe('xxxx');
    const refused = await fetch(`${url}/messages`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-api-key': String(client.apiKey) },
      body: JSON.stringify({ model: 'scripted', max_tokens: 10, messages: question }),
    });
    expect(refused.status).toBe(400);
  });

  it('answers with models of other providers for what they cost', async () => {
    const { data, response } = await client.chat.completions
      .create({ model: 'far-1', messages: question })
      .withResponse();
    expect(data.choices[0]?.message.content).toBe('From afar.');
    expect(response.headers.get('x-svc-cost-nanousd')).toBe('105000');
    expect(gateway(dataDir, 'ledger', 'audit')).toMatchObject({ ok: true, open_holds: 0 });
  });

  it('counts the usage of the resident model as its price says', async () => {
    const free = { provider: 'local', model: 'scripted', requests: 5, spend_nanodollars: 0 };
    const paid = { provider: 'far', model: 'far-1', requests: 1, spend_nanodollars: 105_000 };
    const response = await fetch(`${url}/usage?by=provider,model`, {
      headers: { authorization: `Bearer ${client.apiKey}` },
    });
    expect(await response.json()).toMatchObject({ data: [paid, free] });
    expect(gateway(dataDir, 'usage', '--by', 'provider,model')).toMatchObject({ data: [paid, free] });
  });

  it('serves a changed gateway.toml without a restart', async () => {
    const file = join(dataDir, 'gateway.toml');
    writeFileSync(
      file,
      readFileSync(file, 'utf8').replace('[[fallbacks]]', '[aliases]\nbest = "far-1"\n[[fallbacks]]'),
    );
    await expect
      .poll(() => host.output.stderr, { timeout: 20_000 })
      .toContain('version 2 of the configuration is in force');
    const { model } = await client.chat.completions.create({ model: 'best', messages: question });
    expect(model).toBe('far-1');
  });

  it('stops with the host, and leaves a consistent ledger', async () => {
    host.kill('SIGTERM');
    expect(await host.exit).toEqual({ code: 0, signal: null });
    expect(gateway(dataDir, 'ledger', 'audit')).toMatchObject({ ok: true });
  });
});

it('a host with an invalid gateway.toml reports all faults and does not start', async () => {
  const dataDir = freshDataDir();
  const config = join(dataDir, 'gateway.toml');
  writeFileSync(config, '[[models]]\nid = "m"\nprovider = "nobody"\n[limits]\nconcurrency = 0\n');
  const host = startScriptedHost(['--port', '0', '--data-dir', dataDir, '--gateway-config', config]);
  expect((await host.exit).code).toBe(2);
  expect(host.output.stderr).toMatch(/gateway\.toml:1: models\[0\]\.caps: is missing/);
  expect(host.output.stderr).toMatch(/gateway\.toml:5: limits\.concurrency/);
});

it.runIf(runsRest)('a host whose gateway.toml names another database says which one it uses', async () => {
  const dataDir = freshDataDir();
  const config = join(dataDir, 'gateway.toml');
  writeFileSync(config, 'database = "sqlite:elsewhere.db"\n');
  const host = startScriptedHost(['--gpu', '--port', '0', '--data-dir', dataDir, '--gateway-config', config]);
  await host.url();
  expect(host.output.stderr).toContain(`create its keys with --database sqlite:${join(dataDir, 'lathe.db')}`);
  await host.end();

  const none = startScriptedHost(['--port', '0', '--data-dir', dataDir, '--gateway-config', 'none.toml']);
  expect((await none.exit).code).toBe(2);
  expect(none.output.stderr).toContain('--gateway-config none.toml: there is no such file');
  expect(none.output.stderr).toContain('name yours with --gateway-config FILE');
});

describe('the gateway of a host that listens beyond loopback', () => {
  const dataDir = freshDataDir();
  let host: HostProcess;
  let url = '';
  let key = '';
  let bearer = '';
  beforeAll(async () => {
    host = startScriptedHost(['--gpu', '--host', '0.0.0.0', '--port', '0', '--data-dir', dataDir]);
    url = `${(await host.url()).replace('0.0.0.0', '127.0.0.1')}/gateway/v1`;
    bearer = readFileSync(join(dataDir, 'bearer.token'), 'utf8').trim();
    key = keyOf(dataDir);
  });
  afterAll(() => host.end());

  it.each(['/catalog', '/models', '/nothing'])(
    "asks for the host's bearer before all else: %s",
    async (path) => {
      const answer = await fetch(url + path, { headers: { 'x-api-key': key } });
      expect(answer.status).toBe(401);
      expect(answer.headers.get('www-authenticate')).toBe('Bearer');
    },
  );

  it("and takes the gateway's key in x-api-key beside it", async () => {
    const headers = { authorization: `Bearer ${bearer}`, 'x-api-key': key };
    expect((await fetch(`${url}/catalog`, { headers })).status).toBe(200);
    const answer = await fetch(`${url}/chat/completions`, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'scripted', messages: question }),
    });
    expect(answer.status).toBe(200);
    const unknown = { authorization: `Bearer ${bearer}`, 'x-api-key': 'lathe_gateway_nobody' };
    expect((await fetch(`${url}/models`, { headers: unknown })).status).toBe(401);
  });
});
