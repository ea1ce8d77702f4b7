import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freshSqlite } from '../support/databases.ts';
import { wires } from '../support/gateway/asks.ts';
import { gatewayProcess, type GatewayProcess, writeConfig } from '../support/gateway/gateways.ts';
import { type FakeProvider, fakeProvider } from '../support/gateway/provider.ts';
import { soldAt } from '../support/gateway/world.ts';
import { freshDataDir, startGateway } from '../support/host.ts';

const tokens = { ada: 'ada-token-that-is-long-enough-1', bob: 'bob-token-that-is-long-enough-2' };
const { path, body } = wires.chat;
type Json = Record<string, unknown> & { readonly data: Record<string, unknown>[] };

let provider: FakeProvider;
let gateway: GatewayProcess;
let config: string;
let adminUrl = '';
beforeAll(async () => {
  provider = await fakeProvider([{ say: { text: 'Yes.', usage: { input: 1000, output: 10 } } }]);
  config = writeConfig(soldAt(provider));
  const file = join(freshDataDir(), 'tokens');
  writeFileSync(file, `# Operators\nada ${tokens.ada}\n\nbob ${tokens.bob}\n`);
  gateway = await gatewayProcess(config, freshSqlite(), ['--admin-port', '0', '--admin-token-file', file]);
  [, adminUrl = ''] = /metrics on (\S+)\/metrics/.exec(gateway.output.stdout) ?? [];
});
afterAll(async () => {
  await gateway.end();
  await provider.close();
});

async function call(
  method: string,
  route: string,
  content?: unknown,
  token: string | undefined = tokens.ada,
) {
  const response = await fetch(`${adminUrl}/admin/v1${route}`, {
    method,
    headers: {
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...(content === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(content === undefined ? {} : { body: JSON.stringify(content) }),
  });
  return { status: response.status, body: (await response.json()) as Json };
}

const asking = async (key: string) => {
  const response = await fetch(`${gateway.url}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body('chat', false)),
  });
  await response.text();
  return response.status;
};

describe('the admin API of a gateway', () => {
  it('takes a team from nothing to its usage, and logs who changed what', async () => {
    const account = await call('POST', '/accounts', { name: 'team', credit_usd: '5' });
    expect(account).toMatchObject({
      status: 200,
      body: { name: 'team', balance: { remaining_nanodollars: 5_000_000_000 } },
    });
    const created = await call('POST', '/keys', {
      account: 'team',
      label: 'ci',
      cap_usd: '1.5',
      models: ['chat'],
    });
    expect(created).toMatchObject({
      status: 200,
      body: { account: account.body['id'], label: 'ci', cap_nanodollars: 1_500_000_000, models: ['chat'] },
    });
    const { key, id } = created.body as unknown as { key: string; id: string };
    expect(await asking(key)).toBe(200);
    await call('PATCH', `/keys/${id}`, { disabled: true }, tokens.bob);
    expect(await asking(key)).toBe(401);
    const changed = await call('PATCH', `/keys/${id}`, { disabled: false, models: null, cap_usd: null });
    expect(changed.body).toMatchObject({ models: null, cap_nanodollars: null, disabled_at: null });
    expect(await asking(key)).toBe(200);
    const budget = await call('POST', '/budgets', {
      account: 'team',
      usd: '0.000001',
      per: 'month',
      time_zone: 'Europe/Berlin',
    });
    expect(budget).toMatchObject({
      status: 200,
      body: { owner: 'account', owner_id: account.body['id'], amount_nanodollars: 1000, period: 'month' },
    });
    expect(await asking(key)).toBe(402);
    const changedBudget = await call('POST', '/budgets', { account: 'team', usd: '0.000002', per: 'month' });
    expect(changedBudget.body).toMatchObject({ amount_nanodollars: 2000, time_zone: 'Europe/Berlin' });
    expect((await call('GET', '/budgets?account=team')).body.data).toMatchObject([{ id: budget.body['id'] }]);
    expect((await call('DELETE', `/budgets/${String(budget.body['id'])}`)).status).toBe(200);
    const other = (await call('POST', '/keys', { account: 'team', requests_per_minute: 1, concurrency: 3 }))
      .body;
    expect(other).toMatchObject({ requests_per_minute: 1, concurrency: 3, tokens_per_minute: null });
    const [first, second] = [await asking(String(other['key'])), await asking(String(other['key']))];
    expect([first, second]).toEqual([200, 429]);
    expect((await call('PATCH', `/keys/${String(other['id'])}`, { requests_per_minute: null })).status).toBe(
      200,
    );
    // A limited key is looked up once a second.
    await expect.poll(() => asking(String(other['key'])), { interval: 300 }).toBe(200);
    expect((await call('DELETE', `/keys/${String(other['id'])}`)).status).toBe(200);
    const child = await call('POST', '/accounts', { name: 'below', parent: 'team' });
    expect(child.body).toMatchObject({ parent: account.body['id'] });
    const both = await call('GET', '/usage?account=below');
    expect(both.body).toMatchObject({ total: { requests: 0 } });
    expect((await call('GET', '/usage?account=team&descendants=true')).body).toMatchObject({
      total: { requests: 4 },
    });
    expect((await call('PATCH', '/accounts/below', { parent: null })).body).toMatchObject({ parent: null });
    const credited = await call('POST', '/accounts/team/credits', { usd: '2.25', note: 'more' });
    expect(credited.status).toBe(200);
    const usage = await call('GET', '/usage?by=account,model&account=team');
    expect(usage.body).toMatchObject({
      data: [{ account: account.body['id'], model: 'chat', requests: 4, prompt_tokens: 4000 }],
      total: { requests: 4 },
    });
    expect(await call('DELETE', `/keys/${id}`)).toMatchObject({ body: { revoked_at: expect.any(String) } });
    expect(await asking(key)).toBe(401);
    const { body: keys } = await call('GET', '/keys?account=team');
    expect(keys.data.find((one) => one['id'] === id)).toMatchObject({
      spent_nanodollars: expect.any(Number),
    });
    expect(keys.data).toHaveLength(2);
    const { body: changes } = await call('GET', '/changes?account=team');
    expect(changes.data.find(({ action }) => action === 'key disable')).toMatchObject({
      actor: 'admin:bob',
      subject: id,
    });
    expect(new Set(changes.data.map(({ actor }) => actor))).toEqual(new Set(['admin:ada', 'admin:bob']));
    // No answer but that of the creation has the secret.
    for (const route of ['/keys', '/accounts', '/changes', '/usage', '/models', '/status'])
      expect(JSON.stringify((await call('GET', route)).body)).not.toContain(key);
  });

  it('names every fault of a request, and what there is not', async () => {
    expect(
      await call('POST', '/keys', { account: '', cap_usd: 5, expires_at: 'soon', models: [], lable: 'x' }),
    ).toMatchObject({
      status: 400,
      body: {
        error: {
          code: 'invalid_value',
          violations: expect.arrayContaining(
            ['account', 'cap_usd', 'expires_at', 'models', 'lable'].map((name) =>
              expect.objectContaining({ path: name }),
            ),
          ),
        },
      },
    });
    for (const [method, route, content, status, code] of [
      ['PATCH', '/keys/k_none', { label: 'x' }, 404, 'unknown_key'],
      ['PATCH', '/keys/k_none', {}, 400, 'invalid_value'],
      ['PATCH', '/accounts/team', {}, 400, 'invalid_value'],
      ['GET', '/keys?acount=team', undefined, 400, 'invalid_value'],
      ['POST', '/keys', { account: 'team', expires_at: '2020-01-01T00:00:00Z' }, 400, 'invalid_value'],
      ['POST', '/keys', { account: 'nobody' }, 404, 'unknown_account'],
      ['POST', '/accounts', { name: 'team' }, 409, 'account_exists'],
      ['POST', '/accounts', { name: 'x', credit_usd: '-1' }, 400, 'invalid_value'],
      ['POST', '/accounts/team/credits', { usd: '-1000' }, 409, 'balance_too_low'],
      ['POST', '/budgets', { usd: '1', per: 'fortnight', time_zone: 'Mars/Base' }, 400, 'invalid_value'],
      ['POST', '/budgets', { usd: '1', per: '12h', time_zone: 'UTC', account: 'team' }, 400, 'invalid_value'],
      ['POST', '/budgets', { usd: '1', per: 'day', key: 'k_none' }, 404, 'unknown_key'],
      ['DELETE', '/budgets/b_none', undefined, 404, 'unknown_budget'],
      ['GET', '/usage?descendants=true', undefined, 400, 'invalid_value'],
      ['GET', '/usage?account=team&descendants=yes', undefined, 400, 'invalid_value'],
      ['GET', '/usage?by=colour', undefined, 400, 'invalid_request_error'],
      ['GET', '/changes?limit=0', undefined, 400, 'invalid_value'],
      ['GET', '/nothing', undefined, 404, 'not_found'],
    ] as const) {
      const answer = await call(method, route, content);
      expect(answer, `${method} ${route}`).toMatchObject({
        status,
        body: { error: { message: expect.any(String) } },
      });
      if (code !== 'invalid_request_error') expect(answer.body).toMatchObject({ error: { code } });
    }
    const message = async (content: unknown) =>
      ((await call('POST', '/keys', content)).body['error'] as { message: string }).message;
    expect(await message({ account: 7, cap_usd: '-1', requests_per_minute: 0, lable: 'x', nope: 1 })).toBe(
      [
        'account: expected a text, got 7',
        "cap_usd: must not be negative, got '-1.000000000'",
        'requests_per_minute: expected at least 1, got 0',
        "lable: unknown member 'lable' (did you mean 'label'?)",
        "nope: unknown member 'nope'; there are: account, label, cap_usd, expires_at, models, requests_per_minute, tokens_per_minute, concurrency.",
      ].join('; '),
    );
    expect((await call('POST', '/budgets', { usd: '1', per: '12h', time_zone: 'UTC' })).body).toMatchObject({
      error: {
        message:
          'key: expected either `key` or `account`; time_zone: a budget per 12h has no time zone; use day, week or month.',
      },
    });
  });

  it('is closed without a token of an operator, and metrics stay open', async () => {
    expect((await call('GET', '/keys', undefined, 'ada')).status).toBe(401);
    const none = await fetch(`${adminUrl}/admin/v1/keys`);
    expect([none.status, none.headers.get('www-authenticate')]).toEqual([401, 'Bearer']);
    // Nothing of the admin API is behind another spelling of its path.
    for (const spelling of [
      '/admin/v1/keys/',
      '//admin/v1/keys',
      '/ADMIN/v1/keys',
      '/admin%2Fv1/keys',
      '/admin/v1/../v1/keys',
      '/metrics/../admin/v1/keys',
    ])
      for (const method of ['GET', 'HEAD', 'OPTIONS']) {
        const response = await fetch(`${adminUrl}${spelling}`, { method });
        expect([401, 404, 405], `${method} ${spelling}`).toContain(response.status);
        expect(await response.text(), spelling).not.toContain('last4');
      }
    expect((await fetch(`${adminUrl}/metrics`)).status).toBe(200);
    expect(
      (await fetch(`${gateway.url}/admin/v1/keys`, { headers: { authorization: `Bearer ${tokens.ada}` } }))
        .status,
    ).toBe(404);
    const { paths } = (await (await fetch(`${adminUrl}/openapi.json`)).json()) as { paths: object };
    expect(Object.keys(paths)).toContain('/admin/v1/keys/{key}');
  });

  it('reloads the configuration, or says why not', async () => {
    expect((await call('POST', '/reload')).body).toEqual({ outcome: 'unchanged', version: 1 });
    const sound = soldAt(provider);
    writeFileSync(config, '[[models]]\nid = "x"\n[limits]\nconcurrency = 0\n');
    const refused = await call('POST', '/reload');
    expect(refused).toMatchObject({ status: 409, body: { error: { code: 'config_refused' } } });
    expect((refused.body['error'] as { violations: object[] }).violations.length).toBeGreaterThan(1);
    const smaller = writeConfig(sound.slice(0, 1));
    writeFileSync(config, readFileSync(smaller));
    expect((await call('POST', '/reload')).body).toEqual({ outcome: 'replaced', version: 2 });
    expect((await call('GET', '/models')).body.data.map(({ id }) => id)).toEqual(['chat']);
    expect((await call('GET', '/status')).body).toMatchObject({ config: { version: 2, is_newest: true } });
  });
});

it('a file of tokens with faults is refused, without repeating a token', async () => {
  const file = join(freshDataDir(), 'tokens');
  writeFileSync(file, `ada short\nbob\nada ${tokens.ada}\nada ${tokens.bob}\neve ${tokens.ada}\n`);
  const run = async (...flags: string[]) => {
    const child = startGateway([
      'serve',
      '--config',
      config,
      '--database',
      freshSqlite(),
      '--port',
      '0',
      ...flags,
    ]);
    return { ...(await child.exit), err: child.output.stderr };
  };
  const { code, err } = await run('--admin-port', '0', '--admin-token-file', file);
  expect(code).toBe(2);
  expect(err).toMatch(/tokens:1: the token of ada: expected at least 24/);
  expect(err).toMatch(/tokens:2: expected NAME TOKEN/);
  expect(err).toMatch(/tokens:4: there are two tokens of ada/);
  expect(err).toMatch(/tokens:5: eve has the token of another operator/);
  expect(err).not.toContain(tokens.bob);
  expect((await run('--admin-token-file', file)).err).toContain('--admin-token-file needs --admin-port');
});
