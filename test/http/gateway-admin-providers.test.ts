/** Providers and credentials in the admin API: their health, their switches, and what is never shown. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freshSqlite } from '../support/databases.ts';
import { wires } from '../support/gateway/asks.ts';
import { gatewayCommandLine } from '../support/gateway/command-line.ts';
import { gatewayProcess, type GatewayProcess } from '../support/gateway/gateways.ts';
import { type FakeProvider, fakeProvider } from '../support/gateway/provider.ts';
import { ask, customerOf, type Customer, Witness } from '../support/gateway/world.ts';
import { freshDataDir } from '../support/host.ts';
import { ledgerOn } from '../support/ledger.ts';

const token = 'ada-token-that-is-long-enough-1';
const wrongToken = 'eve-token-that-is-long-enough-1';
const keys = { east: 'sk-house-of-the-east-1234', west: 'sk-house-of-the-west-5678' };
const { path, body } = wires.chat;
const say = { text: 'Yes.', usage: { input: 10, output: 10 } };

const providers: Record<'east' | 'west', FakeProvider> = {} as Record<'east' | 'west', FakeProvider>;
const gateways: GatewayProcess[] = [];
const adminUrls: string[] = [];
let config = '';
let keyFile = '';
let witness: Witness;
let customer: Customer;

const model = (id: string, rest: string) => `[[models]]
id = "${id}"
family = "openai"
caps = ["chat"]
context_window = 100_000
max_output_tokens = 8_000
in_usd_per_mtok = "1"
out_usd_per_mtok = "2"
${rest}
`;

beforeAll(async () => {
  providers.east = await fakeProvider([{ say }]);
  providers.west = await fakeProvider([{ say }]);
  const folder = freshDataDir();
  config = join(folder, 'gateway.toml');
  keyFile = join(folder, 'west.key');
  writeFileSync(keyFile, `${keys.west}\n`);
  writeFileSync(
    config,
    `${(['east', 'west'] as const)
      .map(
        (id) => `[[providers]]
id = "${id}"
wire = "openai-chat"
base_url = "${providers[id].baseUrl('openai-chat')}"
${id === 'east' ? 'api_key_env = "HOUSE_KEY"' : 'api_key_file = "west.key"'}
`,
      )
      .join('')}${model('both', '')}${['east', 'west']
      .map(
        (id) =>
          `[[models.deployments]]\nprovider = "${id}"\n${id === 'east' ? 'concurrency = 9\n' : 'priority = 2\n'}`,
      )
      .join('')}${model('only/east', 'provider = "east"')}${model('spare', 'provider = "west"')}
[limits]
retries = 0
`,
  );
  const tokens = join(folder, 'tokens');
  writeFileSync(tokens, `ada ${token}\n`);
  const database = freshSqlite();
  for (let count = 0; count < 2; count++) {
    const gateway = await gatewayProcess(
      config,
      database,
      ['--admin-port', '0', '--admin-token-file', tokens, '--log-format', 'json'],
      { HOUSE_KEY: keys.east },
    );
    gateways.push(gateway);
    adminUrls.push(/metrics on (\S+)\/metrics/.exec(gateway.output.stdout)?.[1] ?? '');
  }
  witness = new Witness(await ledgerOn(database));
  customer = await customerOf(witness.books);
});
afterAll(async () => {
  await witness.books.close();
  for (const gateway of gateways) await gateway.end();
  for (const provider of Object.values(providers)) await provider.close();
});

type Json = Record<string, unknown> & { readonly data: Record<string, unknown>[] };
async function call(method: string, route: string, content?: unknown, at = 0, as = token) {
  const response = await fetch(`${adminUrls[at]}/admin/v1${route}`, {
    method,
    headers: { authorization: `Bearer ${as}`, 'content-type': 'application/json' },
    ...(content === undefined ? {} : { body: JSON.stringify(content) }),
  });
  const text = await response.text();
  for (const secret of [...Object.values(keys), customer.secret]) expect(text).not.toContain(secret);
  return { status: response.status, body: JSON.parse(text) as Json };
}
const asking = async (name: string, at = 0) => {
  const response = await ask(gateways[at]?.url ?? '', path, { customer, body: body(name, false) });
  await response.text();
  return [response.status, response.headers.get('x-svc-provider')];
};

describe('providers', () => {
  it('are listed with the health of their deployments', async () => {
    expect(await asking('both')).toEqual([200, 'east']);
    providers.east.script([{ status: 500 }]);
    expect(await asking('both')).toEqual([200, 'west']);
    providers.east.script([{ say }]);
    const { body: list } = await call('GET', '/providers');
    expect(list.data.map(({ id }) => id)).toEqual(['east', 'west']);
    expect(list.data[0]).toMatchObject({
      wire: 'openai-chat',
      access: 'house',
      disabled: null,
      base_urls: [providers.east.baseUrl('openai-chat')],
      deployments: [
        {
          model: 'both',
          upstream: 'both',
          concurrency: 9,
          requests_per_minute: null,
          breaker_open: false,
          cooldown_ms: expect.any(Number),
          requests_in_flight: 0,
          last_request_at: expect.stringMatching(/^20.*Z$/),
          last_error: { status: 502, code: expect.any(String), at: expect.stringMatching(/^20.*Z$/) },
        },
        { model: 'only/east', last_error: null, last_request_at: null },
      ],
    });
    expect((await call('GET', '/providers/west')).body).toMatchObject({
      deployments: [{ model: 'both', last_error: null }, { model: 'spare' }],
    });
    expect(await call('GET', '/providers/wst')).toMatchObject({
      status: 404,
      body: {
        error: {
          code: 'unknown_provider',
          message: "The configuration has no provider 'wst' (did you mean 'west'?).",
        },
      },
    });
  });

  it('are disabled and enabled on every gateway, and the log of changes says by whom', async () => {
    const off = await call('PATCH', '/providers/east', { disabled: true, note: 'outage' });
    expect(off).toMatchObject({
      status: 200,
      body: { disabled: { by: 'admin:ada', note: 'outage', at: expect.any(String) } },
    });
    const asked = providers.east.requests.length;
    // The other deployment answers, and a model without another one is refused, free of charge.
    expect(await asking('both')).toEqual([200, 'west']);
    const refused = await ask(gateways[0]?.url ?? '', path, { customer, body: body('only/east', false) });
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '60']);
    expect(await refused.json()).toMatchObject({
      error: {
        code: 'upstream_unavailable',
        message: expect.stringMatching(/has disabled only\/east of the provider 'east'/),
      },
    });
    expect(providers.east.requests).toHaveLength(asked);
    // The other gateway follows, and can enable it.
    await expect.poll(() => asking('both', 1)).toEqual([200, 'west']);
    expect((await call('GET', '/models', undefined, 1)).body.data[0]).toMatchObject({
      id: 'both',
      routing: { strategy: 'priority', sticky: false },
      deployments: [
        { provider: 'east', upstream: 'both', priority: 1, concurrency: 9, disabled: true },
        { provider: 'west', priority: 2, weight: 1, disabled: false, pricing: { in_usd_per_mtok: '1' } },
      ],
    });
    expect((await call('PATCH', '/providers/east', { disabled: true, note: 'again' })).body).toMatchObject({
      disabled: { note: 'outage' },
    });
    expect((await call('PATCH', '/providers/east', { disabled: false }, 1)).body['disabled']).toBeNull();
    await expect.poll(() => asking('only/east')).toEqual([200, 'east']);
    expect(await witness.faults()).toEqual([]);

    expect(
      (await call('PATCH', '/providers/east', { disabled: true, model: 'only/east' })).body,
    ).toMatchObject({
      disabled: null,
      deployments: [
        { model: 'both', disabled: null },
        { model: 'only/east', disabled: { by: 'admin:ada', note: null } },
      ],
    });
    expect((await asking('only/east'))[0]).toBe(503);
    expect(await asking('both')).toEqual([200, 'east']);
    await call('PATCH', '/providers/east', { disabled: false, model: 'only/east' });
    expect(await asking('only/east')).toEqual([200, 'east']);
    const { data } = (await call('GET', '/changes?limit=10')).body;
    expect(
      data
        .filter(({ account }) => account === null)
        .map(({ action, subject, actor, after }) => [action, subject, actor, after]),
    ).toEqual([
      ['deployment enable', 'east/only/east', 'admin:ada', null],
      ['deployment disable', 'east/only/east', 'admin:ada', null],
      ['provider enable', 'east', 'admin:ada', null],
      ['provider disable', 'east', 'admin:ada', { note: 'outage' }],
    ]);
  });

  it('are switched by a correct body only', async () => {
    for (const [content, message] of [
      [{}, 'disabled: expected true or false'],
      [{ disabled: 'yes', note: '' }, 'disabled: expected true or false'],
      [{ disabled: false, note: 'x' }, 'note: expected only with `disabled: true`'],
      [
        { disabled: true, model: 'spar' },
        "model: expected a model of west: both, spare; got 'spar' (did you mean 'spare'?)",
      ],
      [{ disabled: true, modle: 'both' }, "unknown member 'modle' (did you mean 'model'?)"],
    ] as const) {
      const refused = await call('PATCH', '/providers/west', content);
      expect(refused.status, JSON.stringify(content)).toBe(400);
      expect(refused.body).toMatchObject({ error: { message: expect.stringContaining(message) } });
    }
    expect((await call('PATCH', '/providers/north', { disabled: true })).status).toBe(404);
  });
});

describe('credentials', () => {
  it('are listed by where they come from and their fingerprint, and a reload takes a new one', async () => {
    const before = (await call('GET', '/credentials')).body.data;
    expect(before).toEqual([
      {
        provider: 'east',
        source: 'env',
        name: 'HOUSE_KEY',
        fingerprint: expect.stringMatching(/^[0-9a-f]{8}$/),
        last_used_at: expect.any(String),
      },
      expect.objectContaining({ provider: 'west', source: 'file', name: 'west.key' }),
    ]);
    const next = 'sk-house-of-the-west-new';
    writeFileSync(keyFile, next);
    expect((await call('POST', '/reload')).body).toMatchObject({ outcome: 'replaced' });
    const after = (await call('GET', '/credentials')).body.data;
    expect(after[0]).toEqual(before[0]);
    expect(after[1]?.['fingerprint']).not.toBe(before[1]?.['fingerprint']);
    expect(after[1]?.['last_used_at']).toBeNull();
    expect(JSON.stringify(after)).not.toContain(next);
    expect(await asking('spare')).toEqual([200, 'west']);
    expect((await call('GET', '/credentials')).body.data[1]?.['last_used_at']).toEqual(expect.any(String));
  });
});

describe('commands of providers', () => {
  const run = (line: string) =>
    gatewayCommandLine([...line.split(' '), '--admin-url', adminUrls[0] ?? ''], {
      LATHE_GATEWAY_ADMIN_TOKEN: token,
    });

  it('list, disable and enable them, and say where their keys come from', async () => {
    const off = await run('provider disable west --model spare --note outage');
    expect(off).toEqual({ out: 'spare at west is disabled\n', err: '', code: 0 });
    const listed = await run('provider list');
    expect(listed.out).toMatch(
      /^PROVIDER +MODEL +STATE +BREAKER +COOLDOWN +RUNNING +LAST ERROR +LAST REQUEST\n/,
    );
    expect(listed.out).toMatch(/^east +both +active +closed +\S+(?: s)? +0 +502 \w+ 20\S+ +20\S+$/m);
    expect(listed.out).toMatch(/^west +spare +disabled 20\S+ by admin:ada: outage +closed +- +0 +- +20\S+$/m);
    expect(JSON.parse((await run('provider list --json')).out)).toEqual(
      (await call('GET', '/providers')).body,
    );
    expect((await run('provider enable west --model spare')).out).toBe('spare at west is enabled\n');
    expect(await asking('spare')).toEqual([200, 'west']);
    await run('provider disable west --model spare');
    expect((await run('provider enable west')).out).toBe(
      'west is enabled, but spare at it is still disabled: `provider enable west --model spare`\n',
    );
    await run('provider disable west');
    expect((await run('provider enable west --model spare')).out).toBe(
      'spare at west is enabled, but west is disabled: `provider enable west`\n',
    );
    expect((await run('provider enable west')).out).toBe('west is enabled\n');
    expect((await run('provider disable nort')).err).toBe(
      "lathe: The configuration has no provider 'nort'.\n",
    );
    const keysListed = await run('credential list');
    expect(keysListed.out).toMatch(/^east +env +HOUSE_KEY +[0-9a-f]{8} +20\S+$/m);
    expect(keysListed.out + listed.out).not.toContain(keys.east);
    expect((await run('reload')).out).toBe('the configuration has not changed; version 2 is in force\n');
    const unnamed = await gatewayCommandLine(['provider', 'list', '--config', config]);
    expect(unnamed).toMatchObject({ code: 2, out: '' });
    expect(unnamed.err).toContain(
      'provider list works on a running gateway only: name it with --admin-url URL',
    );
  });
});

describe('the log of changes', () => {
  it('has reloads, refused configurations and wrong tokens; the state shows what is refused', async () => {
    const sound = (await call('GET', '/status')).body['config'];
    expect(sound).toMatchObject({ refused: null });
    writeFileSync(config, 'nonsense = 1\n[limits]\nretries = -1\n');
    expect((await call('POST', '/reload')).status).toBe(409);
    const reload = await gatewayCommandLine(['reload', '--admin-url', adminUrls[0] ?? ''], {
      LATHE_GATEWAY_ADMIN_TOKEN: token,
    });
    expect(reload).toMatchObject({ code: 1, out: '' });
    expect(reload.err).toContain('the new one cannot be used: gateway.toml');
    expect((await call('GET', '/status')).body['config']).toMatchObject({
      ...(sound as object),
      refused: {
        at: expect.stringMatching(/^20.*Z$/),
        faults: expect.arrayContaining([
          expect.stringContaining('nonsense'),
          expect.stringContaining('retries'),
        ]),
      },
    });
    for (let attempt = 0; attempt < 3; attempt++)
      expect((await call('GET', '/keys', undefined, 0, wrongToken)).status).toBe(401);
    const changes = async () =>
      (await call('GET', '/changes?limit=20')).body.data.filter(({ account }) => account === null);
    await expect
      .poll(async () => (await changes()).filter(({ action }) => action === 'login refused'))
      .toEqual([
        expect.objectContaining({
          subject: 'admin API',
          actor: expect.stringMatching(/^gateway@/),
          after: { attempts: 1 },
        }),
      ]);
    const found = await changes();
    expect(found.find(({ action }) => action === 'config refused')).toMatchObject({
      actor: 'admin:ada',
      subject: 'configuration',
      after: { faults: expect.arrayContaining([expect.stringContaining('nonsense')]) },
    });
    expect(found.find(({ action }) => action === 'config reload')).toMatchObject({
      after: { version: 2, changes: 'providers: changed west' },
    });
    expect(JSON.stringify(found)).not.toContain(wrongToken);
    // Programs read the JSON log.
    const notices = (gateways[0]?.output.stderr ?? '')
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>)
      .filter(({ event }) => event === 'notice');
    expect(notices.find(({ code }) => code === 'config.replaced')).toMatchObject({ version: 2 });
    expect(notices.find(({ code }) => code === 'config.refused')).toMatchObject({
      faults: expect.stringContaining('nonsense'),
    });
  });
});

it('the document of the operator listener has a title and all routes', async () => {
  const document = (await (await fetch(`${adminUrls[0]}/openapi.json`)).json()) as {
    info: { title: string };
    paths: object;
  };
  expect(document.info.title).toBe('lathe gateway: operator listener');
  for (const route of ['/providers', '/providers/{provider}', '/credentials', '/models', '/status'])
    expect(Object.keys(document.paths)).toContain(`/admin/v1${route}`);
});
