/** Commands of the gateway that work on a running gateway, by its admin API. */
import { appendFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freshSqlite } from '../support/databases.ts';
import { wires } from '../support/gateway/asks.ts';
import { gatewayCommandLine } from '../support/gateway/command-line.ts';
import { gatewayProcess, type GatewayProcess, writeConfig } from '../support/gateway/gateways.ts';
import { type FakeProvider, fakeProvider } from '../support/gateway/provider.ts';
import { soldAt } from '../support/gateway/world.ts';
import { freshDataDir, startGateway } from '../support/host.ts';
import { serve } from '../support/local-server.ts';
import { webhookFault } from '../support/webhook-receiver.ts';

const tokens = { ada: 'ada-token-that-is-long-enough-1', bob: 'bob-token-that-is-long-enough-2' };
const { path, body } = wires.chat;

let provider: FakeProvider;
let gateway: GatewayProcess;
let config = '';
let database = '';
let adminUrl = '';
let tokenFile = '';
beforeAll(async () => {
  provider = await fakeProvider([{ say: { text: 'Yes.', usage: { input: 1000, output: 10 } } }]);
  config = writeConfig(soldAt(provider));
  const folder = freshDataDir();
  const served = join(folder, 'tokens');
  writeFileSync(served, `ada ${tokens.ada}\nbob ${tokens.bob}\n`);
  tokenFile = join(folder, 'ada');
  writeFileSync(tokenFile, `# mine\nada ${tokens.ada}\n`);
  database = freshSqlite();
  gateway = await gatewayProcess(config, database, ['--admin-port', '0', '--admin-token-file', served]);
  [, adminUrl = ''] = /metrics on (\S+)\/metrics/.exec(gateway.output.stdout) ?? [];
});
afterAll(async () => {
  await gateway.end();
  await provider.close();
});

const onGateway = (line: string) =>
  gatewayCommandLine([...line.split(' '), '--admin-url', adminUrl, '--admin-token-file', tokenFile]);
const onDatabase = (line: string) =>
  gatewayCommandLine([...line.split(' '), '--database', database, '--config', config], {
    HOUSE_KEY: 'sk-house',
  });
const idIn = (out: string, letter: string) => new RegExp(`${letter}_[0-9a-f]{16}`).exec(out)?.[0] ?? '';

describe('commands on a running gateway', () => {
  it('print what they print on the database', async () => {
    /** Each command on both, for two accounts that differ in name only: ids, dates and names are masked. */
    const mask = (text: string, name: string) =>
      text
        .replaceAll(name, 'NAME')
        .replaceAll(name.slice(0, -1), 'NAM')
        .replaceAll(/\b([akbg])_[0-9a-f]{16}\b/g, '$1_ID')
        .replaceAll(/lathe_gateway_[\w-]{43}/g, 'SECRET')
        .replaceAll(/"last4": "[^"]*"/g, '"last4": "LAST"')
        .replaceAll(/\.\.\.[\w-]{4} /g, '...LAST ')
        .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME');
    const ids = new Map<string, string>();
    for (const [line, remembers] of [
      ['account create NAME --credit-usd 5.5 --included-usd 0.000000001', 'a'],
      ['account create NAME-below --parent NAME --json', ''],
      ['account credit NAME -0.25 --note typo', ''],
      ['account credit NAME 1 --json', ''],
      ['account credit NAME -1000', ''],
      ['account credit NAM 1 --json', ''],
      ['account update NAME-below --parent none', ''],
      ['account update NAME-below --name NAME', ''],
      ['account disable NAME --json', ''],
      ['account enable NAME', ''],
      ['key create --account NAME --cap-usd 1.5 --expires 2099-01-31 --models chat,chatt --label ci', 'k'],
      ['key update KEY --cap-usd none --rpm 60 --tpm 70000 --concurrency 3 --expires never --models all', ''],
      ['key update KEY --label other --json', ''],
      ['key update k_none --label other', ''],
      ['key disable KEY', ''],
      ['key enable KEY --json', ''],
      ['key list --account NAME', ''],
      ['key list --account NAME --json', ''],
      ['key list --account nobody-at-all', ''],
      ['budget set --account NAME --usd 10 --per month --time-zone Europe/Berlin', 'b'],
      ['budget set --key KEY --usd 0.5 --per 12h --json', ''],
      ['budget set --key k_none --usd 0.5 --per 12h', ''],
      ['budget list --account NAME', ''],
      ['budget remove BUDGET', ''],
      ['budget remove BUDGET', ''],
      ['usage --account NAME --by account,model --csv', ''],
      ['cache clear', ''],
      ['cache clear --account NAME --json', ''],
      ['cache clear --account nobody-at-all', ''],
      ['key revoke KEY', ''],
      ['key revoke KEY --json', ''],
      ['key update KEY --label revoked', ''],
    ] as const) {
      const outcomes = [];
      for (const [name, run] of [
        ['alpha', onDatabase],
        ['gamma', onGateway],
      ] as const) {
        const filled = line
          .replaceAll('NAM', name.slice(0, -1))
          .replaceAll(/(?<=alph|gamm)E\b/g, name.slice(-1))
          .replace('KEY', ids.get(`${name} k`) ?? '')
          .replace('BUDGET', ids.get(`${name} b`) ?? '');
        const done = await run(filled);
        if (remembers) ids.set(`${name} ${remembers}`, idIn(done.out + done.err, remembers));
        outcomes.push({ out: mask(done.out, name), err: mask(done.err, name), code: done.code });
      }
      expect(outcomes[1], line).toEqual(outcomes[0]);
    }
    expect([...ids.values()].every((id) => id !== '')).toBe(true);
  });

  it('list what the database has, exactly', async () => {
    const created = await onGateway('key create --account gamma');
    const secret = created.out.trim();
    const response = await fetch(`${gateway.url}${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
      body: JSON.stringify(body('chat', false)),
    });
    expect([response.status, await response.json()]).toEqual([200, expect.anything()]);
    const requestId = response.headers.get('x-svc-request-id') ?? '';
    for (const line of [
      `receipt ${requestId}`,
      `receipt ${requestId} --json`,
      'account list',
      'account list --json',
      'key list',
      'key list --json',
      'budget list',
      'budget list --json',
      'usage --by account,key,model,day',
      'usage --by model,tag --json',
      'usage --account gamma --csv',
      'usage --account gamma --with-descendants --json',
      'changes --limit 5000',
      'changes --account gamma --json',
    ]) {
      const [local, remote] = [await onDatabase(line), await onGateway(line)];
      expect(local, line).toMatchObject({ code: 0, err: '' });
      expect(remote, line).toEqual(local);
    }
    const receipt = await onGateway(`receipt ${requestId}`);
    expect(receipt.out).toMatch(/state +settled\n/);
    expect(receipt.out).toMatch(/account +gamma \(a_/);
    expect(receipt.out).toMatch(/entry +revenue \+\$/);
    for (const run of [onDatabase, onGateway])
      expect(await run('receipt req_none')).toMatchObject({
        code: 1,
        out: '',
        err: expect.stringContaining("There is no request 'req_none'"),
      });
    const { out } = await onGateway('changes --account gamma');
    expect(out).toContain('admin:ada');
    expect(out).not.toContain('admin:bob');
  });

  it('are found by the environment, unless a flag names a database', async () => {
    const env = { LATHE_GATEWAY_ADMIN_URL: `${adminUrl}/admin/v1/`, LATHE_GATEWAY_ADMIN_TOKEN: tokens.bob };
    expect((await gatewayCommandLine(['account', 'disable', 'gamma-below'], env)).out).toContain('disabled');
    expect((await onDatabase('changes --limit 1')).out).toMatch(/admin:bob +account disable/);
    const empty = freshSqlite();
    expect(
      (await gatewayCommandLine(['account', 'create', 'delta', '--database', empty], env)).out,
    ).toContain('delta is');
    expect((await onGateway('account list')).out).not.toContain('delta');
    for (const line of ['ledger audit', 'secrets rotate', 'endpoint list']) {
      const refused = await gatewayCommandLine(line.split(' '), env);
      expect(refused).toMatchObject({ code: 2, out: '' });
    }
    expect((await gatewayCommandLine(['ledger', 'audit'], env)).err).toContain(
      'ledger audit works on a database only, and LATHE_GATEWAY_ADMIN_URL names a gateway',
    );
  });

  it('work with the program as it is installed', async () => {
    const child = startGateway(['account', 'list', '--json'], {
      LATHE_GATEWAY_ADMIN_URL: adminUrl,
      LATHE_GATEWAY_ADMIN_TOKEN: tokens.ada,
    });
    expect(await child.exit).toEqual({ code: 0, signal: null });
    expect(JSON.parse(child.output.stdout)).toMatchObject({
      data: expect.arrayContaining([expect.objectContaining({ name: 'gamma' })]),
    });
    expect(child.output.stderr).toBe('');
  });
});

describe('a command whose gateway does not answer it', () => {
  it('exits with 3 and says why, without the token', async () => {
    const wrong = 'wrong-token-that-is-long-enough';
    const list = (env: Record<string, string>) => gatewayCommandLine(['account', 'list'], env);
    const refused = await list({ LATHE_GATEWAY_ADMIN_URL: adminUrl, LATHE_GATEWAY_ADMIN_TOKEN: wrong });
    expect(refused).toEqual({
      out: '',
      err: "lathe: The token is not that of an operator. (--admin-token-file FILE or LATHE_GATEWAY_ADMIN_TOKEN names the operator's token)\n",
      code: 3,
    });
    const closed = await list({
      LATHE_GATEWAY_ADMIN_URL: 'http://127.0.0.1:1',
      LATHE_GATEWAY_ADMIN_TOKEN: wrong,
    });
    expect(closed).toMatchObject({ out: '', code: 3 });
    expect(closed.err).toContain(
      'nothing is listening at http://127.0.0.1:1; --admin-url names the operator',
    );
    const callers = await list({ LATHE_GATEWAY_ADMIN_URL: gateway.url, LATHE_GATEWAY_ADMIN_TOKEN: wrong });
    expect(callers).toMatchObject({ out: '', code: 3 });
    expect(callers.err).toMatch(
      /has no \/admin\/v1\/accounts: .* --admin-url names the port of --admin-port, not that of --port\n/,
    );
    const other = createServer((_, response) => {
      response.setHeader('content-type', 'application/json').end('{"data": [{"id": 1}]}');
    });
    await new Promise<void>((resolve) => void other.listen(0, '127.0.0.1', resolve));
    const address = other.address();
    const port = typeof address === 'object' ? address?.port : 0;
    const odd = await list({
      LATHE_GATEWAY_ADMIN_URL: `http://127.0.0.1:${port}`,
      LATHE_GATEWAY_ADMIN_TOKEN: wrong,
    });
    other.close();
    expect(odd).toMatchObject({ out: '', code: 3 });
    expect(odd.err).toContain('to GET /admin/v1/accounts is not that of a gateway of this version');
    for (const { err } of [refused, closed, callers, odd]) expect(err).not.toContain(wrong);
  });

  it('is refused where the command line is wrong, with every fault', async () => {
    const run = (line: string, env = {}) => gatewayCommandLine(line.split(' '), env);
    const both = await run(`account list --admin-url ftp://x --database ${database} --config ${config}`);
    expect(both).toMatchObject({ code: 2, out: '' });
    expect(both.err).toContain('--admin-url and --database exclude each other');
    expect(both.err).toContain('--admin-url and --config exclude each other');
    expect(both.err).toContain('--admin-url: expected http://HOST:PORT');
    expect(both.err).toContain("the admin API needs an operator's token");
    expect((await run(`account list --admin-token-file ${tokenFile} --database ${database}`)).err).toContain(
      '--admin-token-file needs --admin-url URL',
    );
    const two = join(freshDataDir(), 'two');
    writeFileSync(two, `ada ${tokens.ada}\nbob ${tokens.bob}\n`);
    const several = await run(`account list --admin-url ${adminUrl} --admin-token-file ${two}`);
    expect(several.err).toContain('expected one line, TOKEN or NAME TOKEN, got 2');
    expect(several.err).not.toContain(tokens.ada);
    expect((await run(`account list --admin-url http://u:hunter2@h`)).err).not.toContain('hunter2');
    expect((await run(`ledger audit --admin-url ${adminUrl}`)).err).toContain(
      '--admin-url does not belong to the command ledger audit',
    );
  });
});

describe('webhook test', () => {
  const secret = `whsec_${Buffer.alloc(32, 5).toString('base64')}`;
  const configFor = (url: string) => {
    const file = writeConfig(soldAt(provider));
    appendFileSync(file, `\n[webhook]\nurl = "${url}"\nsecret_env = "HOOK"\n`);
    return file;
  };
  const run = (file: string, ...more: string[]) =>
    gatewayCommandLine(['webhook', 'test', '--config', file, ...more], {
      HOUSE_KEY: 'sk-house',
      HOOK: secret,
    });

  it('sends a signed notice, and says whether it was taken', async () => {
    const received: unknown[] = [];
    let status = 204;
    const server = await serve((request, response) => {
      void (async () => {
        const content = await text(request);
        received.push(webhookFault(request.headers, content, secret) ?? JSON.parse(content));
        response.writeHead(status).end();
      })();
    });
    const file = configFor(`${server.url}/budgets`);
    const taken = await run(file);
    expect(taken).toMatchObject({ code: 0, err: '' });
    expect(taken.out).toMatch(/^http:\S+ took the test notice n_[0-9a-f-]{36}\n$/);
    expect(received).toEqual([{ type: 'webhook.test', timestamp: expect.any(String), data: {} }]);
    status = 503;
    const refused = await run(file, '--json');
    expect(JSON.parse(refused.out)).toMatchObject({ delivered: false, error: 'status 503' });
    expect(refused).toMatchObject({
      code: 1,
      err: expect.stringContaining('did not take the test notice: status 503'),
    });
    await server.close();
    expect((await run(file)).err).toContain('did not take the test notice: ECONNREFUSED');
  });

  it('needs a webhook in the configuration', async () => {
    expect(await run(config)).toMatchObject({
      code: 2,
      err: expect.stringContaining('the configuration has no table [webhook]'),
    });
  });
});
