/** The gateway's command line, on a real database: what it does, what it prints, and how it refuses. */
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { commandNames, parseGatewayArgs } from '../../src/gateway/cli/commands.ts';
import { gatewayMain } from '../../src/gateway/cli/main.ts';
import { formatDollars, parseNanodollars } from '../../src/gateway/ledger/money.ts';
import { openGatewayDatabase } from '../../src/gateway/cli/gateway-database.ts';
import type { CliEnvironment, ServeOptions } from '../../src/gateway/cli/types.ts';
import { ledgerOn, payerOf, reservation, settlement } from '../support/ledger.ts';

let folder = '';
let database = '';
let config = '';
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lathe-gateway-cli-'));
  config = join(folder, 'gateway.toml');
  await writeFile(
    config,
    `[[providers]]
id = "p"
wire = "openai-chat"
base_url = "https://p.test/v1"
api_key_env = "P_KEY"
[[models]]
id = "small"
provider = "p"
family = "openai"
caps = ["chat"]
context_window = 1000
max_output_tokens = 100
in_usd_per_mtok = "0.075"
out_usd_per_mtok = "2"
[aliases]
auto = "small"
[secrets]
master_key_env = "MASTER"
`,
  );
});
afterAll(() => rm(folder, { recursive: true, force: true }));
let databases = 0;
beforeEach(async () => {
  database = `sqlite:${join(folder, `${databases++}.db`)}`;
  await (await openGatewayDatabase({ database, masterKeys: [], onNotice: () => undefined })).close();
});

const env = { P_KEY: 'sk-planted-in-the-environment', MASTER: Buffer.alloc(32, 3).toString('base64') };

interface Ran {
  readonly out: string;
  readonly err: string;
  readonly code: number;
}

async function run(args: readonly string[], more: Partial<CliEnvironment> = {}): Promise<Ran> {
  const result = { out: '', err: '', code: 0 };
  await gatewayMain({
    args,
    env,
    home: folder,
    version: () => Promise.resolve('1.2.3'),
    stdout: { write: (text: string) => (result.out += text) },
    stderr: { write: (text: string) => (result.err += text) },
    signals: { on: () => undefined },
    hasTerminal: true,
    exit: (code) => (result.code = code),
    now: () => new Date('2026-11-22T00:00:00.000Z'),
    serve: () => Promise.reject(new Error('not served here')),
    openDatabase: openGatewayDatabase,
    ...more,
  });
  return result;
}
const onBooks = (...args: string[]) => run([...args, '--database', database]);
const json = async (...args: string[]) => {
  const { out, err, code } = await onBooks(...args, '--json');
  if (code !== 0) throw new Error(err);
  return JSON.parse(out) as Record<string, unknown>;
};

describe('accounts and keys', () => {
  test('an account is created, credited, corrected and listed, in exact dollars', async () => {
    const made = await onBooks(
      'account',
      'create',
      'acme',
      '--credit-usd',
      '5',
      '--included-usd',
      '0.000000001',
    );
    expect(made).toMatchObject({ code: 0, err: '' });
    expect(made.out).toMatch(/^the account acme is a_[0-9a-f]{16}, with \$5\.000000001\n$/);
    expect((await onBooks('account', 'credit', 'acme', '0.1')).out).toBe('acme has $5.100000001 now\n');
    expect((await onBooks('account', 'credit', 'acme', '-5.10', '--note', 'typo')).out).toBe(
      'acme has $0.000000001 now\n',
    );
    const listed = await onBooks('account', 'list');
    expect(listed.out).toMatch(
      /^NAME +ID +REMAINING +ALLOWANCE +CREDITS +HELD +CREATED +BELOW +STATE\nacme +a_/,
    );
    expect(await json('account', 'list')).toMatchObject({
      data: [
        {
          name: 'acme',
          balance: { remaining_nanodollars: 1, included_nanodollars: 1, allowance_remaining_nanodollars: 1 },
          held_nanodollars: 0,
        },
      ],
    });
  });

  test('a key is printed only once, alone on stdout', async () => {
    await onBooks('account', 'create', 'acme');
    const line =
      'key create --account acme --cap-usd 1 --expires 90d --models small,auto,,small --label ci'.split(' ');
    const made = await onBooks(...line);
    expect(made.out).toMatch(/^lathe_gateway_[\w-]{43}\n$/);
    const secret = made.out.trim();
    expect(made.err).toMatch(
      /^lathe: created k_[0-9a-f]{16} for the account acme; the key is shown only once\n$/,
    );
    const { data } = (await json('key', 'list')) as { data: Record<string, unknown>[] };
    expect(data).toHaveLength(1);
    expect(data[0]).toMatchObject({
      label: 'ci',
      last4: secret.slice(-4),
      cap_nanodollars: 1_000_000_000,
      spent_nanodollars: 0,
      models: ['small', 'auto'],
      expires_at: '2027-02-20T00:00:00.000Z',
      revoked_at: null,
    });
    const listed = await onBooks('key', 'list', '--account', 'acme');
    expect(listed.out).toContain('until 2027-02-20');
    expect(listed.out + JSON.stringify(data)).not.toContain(secret);
    for (const name of [database.slice(7), `${database.slice(7)}-wal`])
      expect(await readFile(name, 'latin1').catch(() => '')).not.toContain(secret);
    const id = String(data[0]?.['id']);
    expect((await onBooks('key', 'revoke', id)).out).toBe(`${id} is revoked; it spent $0.00\n`);
    expect((await onBooks('key', 'list')).out).toMatch(/revoked 20/);
  });

  test('a key and an account are changed, disabled and enabled, and the changes are logged', async () => {
    await onBooks('account', 'create', 'acme');
    await onBooks('key', 'create', '--account', 'acme', '--cap-usd', '1', '--expires', '90d');
    const keysNow = async () => ((await json('key', 'list'))['data'] as Record<string, unknown>[])[0];
    const id = String((await keysNow())?.['id']);
    const update = ['key', 'update', id, '--cap-usd', '2.5', '--models', 'small,auto', '--label', 'ci'];
    expect(await onBooks(...update)).toMatchObject({ code: 0, err: '', out: `${id} is changed\n` });
    expect(await keysNow()).toMatchObject({
      cap_nanodollars: 2_500_000_000,
      models: ['small', 'auto'],
      label: 'ci',
      expires_at: '2027-02-20T00:00:00.000Z',
    });
    await onBooks('key', 'update', id, '--rpm', '60', '--tpm', '50000', '--concurrency', '4');
    expect((await onBooks('key', 'list')).out).toMatch(/ rpm 60, tpm 50000, concurrency 4 /);
    await onBooks('key', 'update', id, '--rpm', 'none', '--tpm', 'none', '--concurrency', 'none');
    expect(await keysNow()).toMatchObject({ requests_per_minute: null, concurrency: null });
    await onBooks('key', 'update', id, '--cap-usd', 'none', '--models', 'all', '--expires', 'never');
    expect(await keysNow()).toMatchObject({ cap_nanodollars: null, models: null, expires_at: null });
    expect((await onBooks('key', 'disable', id)).out).toBe(`${id} is disabled\n`);
    expect((await onBooks('key', 'list')).out).toMatch(/disabled 20/);
    expect((await onBooks('key', 'enable', id)).out).toBe(`${id} is enabled\n`);
    expect(await keysNow()).toMatchObject({ disabled_at: null });
    expect((await onBooks('account', 'update', 'acme', '--name', 'globex')).out).toBe('globex is changed\n');
    expect((await onBooks('account', 'disable', 'globex')).out).toBe('globex is disabled\n');
    expect((await onBooks('account', 'list')).out).toMatch(/globex .*disabled 20/);
    expect((await onBooks('account', 'enable', 'globex')).out).toBe('globex is enabled\n');
    await onBooks('account', 'credit', 'globex', '2.5', '--note', 'invoice 7');
    const { data } = (await json('changes', '--account', 'globex')) as { data: Record<string, string>[] };
    expect(data).toHaveLength(12);
    expect(data.find(({ action }) => action === 'account credit')).toMatchObject({
      after: { amount_nanodollars: '2500000000', note: 'invoice 7' },
    });
    for (const { actor } of data) expect(actor).toMatch(/^.+@.+$/);
    expect(data.find(({ action }) => action === 'account update')).toMatchObject({
      before: { name: 'acme' },
      after: { name: 'globex' },
    });
    const listed = await onBooks('changes', '--limit', '3');
    expect(listed.out).toMatch(/^AT +BY +CHANGE +OF +BEFORE +AFTER\n/);
    expect(listed.out.trim().split('\n')).toHaveLength(4);
  });

  test('a budget is set, changed, listed and removed', async () => {
    await onBooks('account', 'create', 'team');
    await onBooks('account', 'create', 'acme', '--parent', 'team');
    await onBooks('key', 'create', '--account', 'acme');
    const { data: keys } = (await json('key', 'list')) as { data: Record<string, unknown>[] };
    const key = String(keys[0]?.['id']);
    const zone = ['--time-zone', 'europe/berlin'];
    const made = await onBooks('budget', 'set', '--key', key, '--usd', '5', '--per', 'month', ...zone);
    expect(made).toMatchObject({ code: 0, err: '' });
    expect(made.out).toMatch(
      /^b_[0-9a-f]{16} allows \$5\.00 per month; it starts anew at 20\d\d-\d\d-\d\dT2[23]:00:00\.000Z\n$/,
    );
    expect((await onBooks('budget', 'set', '--account', 'team', '--usd', '0', '--per', '12h')).err).toBe(
      'lathe: a budget of 0 admits only requests that cost nothing\n',
    );
    await onBooks('budget', 'set', '--account', 'team', '--usd', '0.5', '--per', '12h');
    await onBooks('budget', 'set', '--account', 'team', '--usd', '0.75', '--per', '12h');
    const { data } = (await json('budget', 'list')) as { data: Record<string, unknown>[] };
    expect(data).toHaveLength(2);
    expect(data.find(({ owner }) => owner === 'account')).toMatchObject({
      period: '12h',
      amount_nanodollars: 750_000_000,
      spent_nanodollars: 0,
      resets_at: null,
    });
    expect(data.find(({ owner }) => owner === 'key')).toMatchObject({ time_zone: 'Europe/Berlin' });
    const listed = await onBooks('budget', 'list', '--account', 'team');
    expect(listed.out).toMatch(
      /^ID +OF +PER +TIME ZONE +AMOUNT +SPENT +HELD +RESETS\nb_\w+ +team +12h +- +\$0\.75/,
    );
    const id = /^b_\w+/m.exec(listed.out)?.[0] ?? '';
    expect((await onBooks('budget', 'remove', id)).out).toBe(`${id} is removed\n`);
    expect((await onBooks('budget', 'remove', id)).err).toContain(`There is no budget ${id}`);
    const { data: changes } = (await json('changes', '--account', 'team')) as { data: { action: string }[] };
    expect(changes.map(({ action }) => action).toSorted()).toEqual([
      'account create',
      'budget remove',
      'budget set',
      'budget set',
      'budget set',
    ]);
    expect((await onBooks('account', 'list')).out).toMatch(/acme .* team +active/);
    await onBooks('account', 'update', 'acme', '--parent', 'none');
    expect((await onBooks('account', 'list')).out).toMatch(/acme .* - +active/);
  });

  test('a model that is not in the configuration causes a remark', async () => {
    await onBooks('account', 'create', 'acme');
    const made = await onBooks(
      'key',
      'create',
      '--account',
      'acme',
      '--models',
      'smal,vllm:x/y',
      '--config',
      config,
    );
    expect(made.code).toBe(0);
    expect(made.err).toContain("the configuration has no model 'smal' (did you mean 'small'?)");
    const aliased = ['key', 'create', '--account', 'acme', '--models', 'auto', '--config', config];
    expect((await onBooks(...aliased)).err).not.toContain('has no model');
    expect(made.err).not.toContain('vllm:x/y');
    expect(made.out).toMatch(/^lathe_gateway_/);
  });

  test('the ledger is audited; faults exit with 1', async () => {
    await onBooks('account', 'create', 'acme', '--credit-usd', '1');
    expect(await onBooks('ledger', 'audit')).toMatchObject({
      code: 0,
      out: expect.stringMatching(/is consistent: 1 account, 1 transaction, 2 entries, 0 open holds\n$/),
    });
    const audit = {
      ok: false,
      accounts: 1,
      transactions: 1,
      entries: 2,
      openHolds: 0,
      faults: ['a_1 is off'],
    };
    const broken = await run(['ledger', 'audit', '--database', database], {
      openDatabase: async (options) => {
        const books = await openGatewayDatabase(options);
        return {
          ...books,
          ledger: { audit: () => Promise.resolve(audit) } as unknown as typeof books.ledger,
        };
      },
    });
    expect(broken).toMatchObject({ code: 1, err: 'lathe: the ledger is inconsistent: 1 fault\n' });
    expect(broken.out).toContain('a_1 is off');
  });
});

describe('usage', () => {
  const usage = (...args: string[]) => onBooks('usage', ...args);

  /** Usage of two accounts on two days, as the ledger records it. */
  async function spendSome() {
    const ids: string[] = [];
    for (const [day, name, tag, cost] of [
      ['2026-11-21', 'acme', '=1+1', 1n],
      ['2026-11-22', 'acme', 'a, "b"', 1_234_567n],
      ['2026-11-22', 'beta', '', 0n],
    ] as const) {
      const now = () => new Date(`${day}T23:59:59.999Z`);
      const opened = await ledgerOn(database, { now });
      const { ledger } = opened;
      const known = (await ledger.accounts()).find((one) => one.name === name);
      const account = known ?? (await ledger.createAccount(name, { credit: 10n ** 9n }));
      const { row } = await ledger.createKey({ account: account.id });
      const requested = reservation({ accountId: account.id, keyId: row.id }, 2_000_000n, { tag });
      await ledger.reserve(requested);
      await ledger.settle(requested.requestId, settlement(cost));
      ids.push(account.id);
      await opened.close();
    }
    return ids;
  }

  test('is shown in exact dollars, as a table, JSON and CSV', async () => {
    const [acme] = await spendSome();
    expect((await usage()).out).toBe(
      `MODEL  REQUESTS  PROMPT  CACHED  COMPLETION  SPEND
one    3         48      9       12          $0.001234568
TOTAL  3         48      9       12          $0.001234568
`,
    );
    expect((await usage('--by', 'account,tag', '--since', '1d')).out).toMatch(
      /^ACCOUNT +TAG .*\nacme +a, "b" .*\$0.001234567\nbeta +- .*\$0.00\nTOTAL /,
    );
    expect(await json('usage', '--by', 'account', '--account', 'acme', '--until', '2026-11-21')).toEqual({
      object: 'list',
      since: '2026-10-24',
      until: '2026-11-21',
      by: ['account'],
      data: [
        {
          account: acme,
          requests: 1,
          prompt_tokens: 16,
          cached_tokens: 3,
          completion_tokens: 4,
          spend_nanodollars: 1,
          spend_usd: '0.000000001',
        },
      ],
      total: expect.objectContaining({ spend_nanodollars: 1 }),
    });
    await onBooks('account', 'update', 'beta', '--parent', 'acme');
    expect(await json('usage', '--by', 'account', '--account', 'acme', '--with-descendants')).toMatchObject({
      total: { requests: 3 },
    });
    expect((await usage('--account', 'acme')).err).toBe(
      'lathe: without the accounts below acme: --with-descendants adds them\n',
    );
    expect((await usage('--account', 'acme', '--with-descendants')).err).toBe('');
    // A cell that a spreadsheet would take for a formula is marked as text.
    expect((await usage('--by', 'day,tag', '--csv', '--since', '2026-11')).out).toBe(
      [
        'day,tag,requests,prompt_tokens,cached_tokens,completion_tokens,spend_usd',
        "2026-11-21,'=1+1,1,16,3,4,0.000000001",
        '2026-11-22,,1,16,3,4,0.000000000',
        '2026-11-22,"a, ""b""",1,16,3,4,0.001234567',
        '',
      ].join('\r\n'),
    );
  });

  test('is empty where nothing was used', async () => {
    expect((await usage('--by', 'model,day')).out).toMatch(/^MODEL +DAY .*\nTOTAL .* \$0.00\n$/);
    expect((await usage('--csv')).out).toMatch(/^model,.*\r\n$/);
  });

  test.each([
    [
      ['--by', 'modle'],
      "--by: expected some of day, month, key, account, provider, model, tag, separated by commas, got 'modle' (did you mean 'model'?)",
    ],
    [
      ['--since', '12h'],
      "--since: expected a number of days up to 3660d such as 30d, a date such as 2026-01-31, or a month such as 2026-01, got '12h'",
    ],
    [
      ['--until', '30d'],
      "--until: expected a date such as 2026-01-31, or a month such as 2026-01, got '30d'",
    ],
    [['--since', '2026-12'], '--since: expected a day up to 2026-11-22, got 2026-12-01'],
    [['--csv', '--json'], '--csv and --json exclude each other'],
    [['--with-descendants'], '--with-descendants needs --account NAME'],
    [['--csv=x'], "--csv takes no value, got 'x'"],
    [['--models', 'a'], '--models does not belong to the command usage'],
  ])('%j is refused with what is expected', async (args, message) => {
    const { code, out, err } = await usage(...args);
    expect([code, out]).toEqual([2, '']);
    expect(err).toContain(`lathe: ${message}\n`);
  });

  test('--csv belongs to no other command', async () => {
    expect((await onBooks('key', 'list', '--csv')).err).toContain(
      '--csv does not belong to the command key list',
    );
  });
});

describe('archives', () => {
  test('are made and verified; faults exit with 1', async () => {
    const now = () => new Date('2026-11-02T12:00:00.000Z');
    const opened = await ledgerOn(database, { now });
    const payer = await payerOf(opened.ledger, { credit: 10n ** 9n });
    const requested = reservation(payer, 2_000_000n);
    await opened.ledger.reserve(requested);
    await opened.ledger.settle(requested.requestId, settlement(1_000_000n));
    await opened.close();
    const to = await mkdtemp(join(folder, 'archives-'));

    expect(await onBooks('ledger', 'archive', to, '--before', '2026-11-10')).toMatchObject({
      code: 0,
      out: `1 request of 1 day archived in ${to}; keep the files, \`ledger verify\` checks them\n`,
      err: 'lathe: 2026-11-02: 1 request in archive-2026-11-02.jsonl.gz\n',
    });
    expect(await onBooks('ledger', 'archive', to, '--before', '2026-11-10')).toMatchObject({
      code: 0,
      out: 'nothing to archive: no request ended before 2026-11-10\n',
    });
    expect(await onBooks('ledger', 'audit')).toMatchObject({ code: 0 });
    expect(await onBooks('ledger', 'verify', to)).toMatchObject({
      code: 0,
      out: 'the archives agree with the ledger: 1 archived day, 1 request\n',
    });
    await writeFile(join(to, 'archive-2026-11-02.jsonl.gz'), 'damaged');
    expect((await onBooks('ledger', 'verify', `${to}-other`)).err).toMatch(
      /there is no folder .*-other: name the one that `ledger archive` wrote to\n/,
    );
    const damaged = await onBooks('ledger', 'verify', to);
    expect(damaged).toMatchObject({ code: 1, err: 'lathe: the archives differ from the ledger: 1 fault\n' });
    expect(damaged.out).toContain('has the SHA-256');
  });

  test.each([
    [['missing', '--before', '2026-01-01'], /there is no folder missing: create it first/],
    [['.', '--before', '2026-02-30'], /--before: expected a day such as 2026-01-31, got '2026-02-30'/],
    [['.', '--before', '2999-01-01'], /requests of .* and later stay/],
    [['.'], /ledger archive needs --before DAY/],
  ])('%j is refused', async (words, message) => {
    const refused = await onBooks('ledger', 'archive', ...words);
    expect(refused.code).not.toBe(0);
    expect(refused.err).toMatch(message);
  });
});

describe('credentials', () => {
  test('an endpoint is added, listed without its key, re-encrypted and removed', async () => {
    await onBooks('account', 'create', 'acme');
    const keyFile = join(folder, 'endpoint.key');
    await writeFile(keyFile, 'sk-endpoint-abcd\n');
    const line = `endpoint add vllm:lab --account acme --base-url http://10.0.0.5:8000/v1 --config ${config}`;
    const given = await onBooks(...line.split(' '), '--api-key-file', keyFile);
    expect(given).toMatchObject({
      code: 0,
      out: 'acme has the endpoint vllm:lab; its models are vllm:lab/MODEL\n',
    });
    const listed = await onBooks('endpoint', 'list', '--account', 'acme');
    expect(listed.out).toMatch(/acme +vllm:lab +active +\.\.\.abcd +http:\/\/10\.0\.0\.5:8000\/v1/);
    expect(listed.out).not.toContain('sk-endpoint');
    const rotated = await onBooks('secrets', 'rotate', '--config', config);
    expect(rotated.out).toMatch(/^0 credentials re-encrypted with mk_[0-9a-f]{16}, 1 unchanged\n$/);
    const other = { ...env, MASTER: Buffer.alloc(32, 9).toString('base64') };
    const lost = await run(['secrets', 'rotate', '--config', config, '--database', database], { env: other });
    expect(lost.code).toBe(1);
    expect(lost.err).toContain('add the master key that encrypted them to previous');
    const take = ['endpoint', 'remove', 'vllm:lab', '--account', 'acme'];
    expect((await onBooks(...take)).out).toBe('acme no longer has vllm:lab\n');
    expect(await onBooks(...take)).toMatchObject({ code: 1, out: '' });
  });

  test.each(['http://8.8.8.8/v1', 'ftp://10.0.0.1/v1', 'http://user:pass@10.0.0.1/v1'])(
    'an endpoint at %s is refused',
    async (url) => {
      await onBooks('account', 'create', 'acme');
      const refused = await onBooks('endpoint', 'add', 'vllm:lab', '--account', 'acme', '--base-url', url);
      expect(refused.code).toBe(1);
      expect((await onBooks('endpoint', 'list')).out).not.toContain('vllm:lab');
    },
  );
});

describe('catalog check', () => {
  test('shows models, exact prices and whether there are keys, never the keys', async () => {
    const { out, code } = await run(['catalog', 'check', '--config', config]);
    expect(code).toBe(0);
    expect(out).toMatch(/small +p +set +0\.075 +2 +0\.075 +0\.075 +1000 +100 +chat/);
    expect(out).toContain('auto is small');
    const { out: text } = await run(['catalog', 'check', '--config', config, '--json']);
    expect(JSON.parse(text)).toMatchObject({
      ok: true,
      models: [{ id: 'small' }],
      aliases: { auto: 'small' },
    });
    for (const secret of Object.values(env)) expect(out + text).not.toContain(secret);
  });

  test('shows the deployments of a model', async () => {
    const file = join(folder, 'deployments.toml');
    const text = (await readFile(config, 'utf8'))
      .replace('provider = "p"\n', 'routing = "least_cost"\nsticky = true\n')
      .replace(
        '[aliases]',
        `[[models.deployments]]
provider = "p"
weight = 2
concurrency = 8
[[models.deployments]]
provider = "p"
upstream = "large"
requests_per_minute = 60
[aliases]`,
      );
    await writeFile(file, text);
    const { out, err, code } = await run(['catalog', 'check', '--config', file]);
    expect([out, code]).toEqual([expect.stringMatching(/^small +p +set .*\nsmall +p +set /m), 0]);
    expect(out).toContain(
      'small is routed by least_cost, sticky: p/small (weight 2, 8 at once); p/large (weight 1, 60 requests a minute)\n',
    );
    expect(err).toContain('all deployments of small have the same prices');
    const { out: body } = await run(['catalog', 'check', '--config', file, '--json']);
    expect(JSON.parse(body)).toMatchObject({
      models: [
        {
          id: 'small',
          routing: 'least_cost',
          sticky: true,
          deployments: [
            { provider: 'p', upstream: 'small', weight: 2, concurrency: 8 },
            {
              provider: 'p',
              upstream: 'large',
              requests_per_minute: 60,
              pricing: { in_usd_per_mtok: '0.075' },
            },
          ],
        },
      ],
    });
  });

  test('reports all faults and exits with 1', async () => {
    const refused = await run(['catalog', 'check', '--config', config], { env: {} });
    expect(refused.code).toBe(1);
    expect(refused.out.split('\n')).toHaveLength(3);
    expect(refused.err).toBe('lathe: the configuration has 2 faults\n');
    const { out } = await run(['catalog', 'check', '--config', config, '--json'], { env: {} });
    expect(JSON.parse(out)).toMatchObject({
      ok: false,
      faults: [expect.stringContaining('P_KEY'), expect.anything()],
    });
  });
});

describe('serve', () => {
  test('uses the settings of flags and file, and stops gracefully', async () => {
    let served: ServeOptions | undefined;
    const stopped: number[] = [];
    const listeners = new Map<string, () => void>();
    const ended = Promise.withResolvers<number>();
    const done = await run(
      ['serve', '--config', config, '--database', database, '--port', '0', '--grace-secs', '7'],
      {
        serve: (options) => {
          served = options;
          return Promise.resolve({
            port: 4567,
            reload: () => Promise.resolve(),
            stop: (graceMs) => {
              stopped.push(graceMs);
              return Promise.resolve();
            },
          });
        },
        signals: { on: (name, listener) => listeners.set(name, listener) },
        exit: ended.resolve,
      },
    );
    expect(done.out).toBe('lathe gateway ready on http://127.0.0.1:4567: 1 model of 1 provider\n');
    expect(served).toMatchObject({ database, host: '127.0.0.1', port: 0 });
    expect(served?.config.models[0]?.id).toBe('small');
    expect((await served?.readConfig())?.models[0]?.id).toBe('small');
    listeners.get('SIGTERM')?.();
    listeners.get('SIGINT')?.();
    expect(await ended.promise).toBe(0);
    expect(stopped).toEqual([7000, 0]);
  });

  test('handles signals before it says that it is ready', async () => {
    const order: string[] = [];
    await run(['serve', '--config', config, '--database', database, '--port', '0'], {
      serve: () =>
        Promise.resolve({ port: 4567, reload: () => Promise.resolve(), stop: () => Promise.resolve() }),
      signals: { on: (name) => order.push(name) },
      stdout: { write: () => order.push('ready line') > 0 },
    });
    expect(order).toEqual(['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGUSR2', 'ready line']);
  });

  test.each([
    ['EADDRINUSE', 'port 80 on 127.0.0.1 is in use; choose another with --port N'],
    ['EACCES', 'no permission to listen on port 80; choose one above 1023'],
    ['EADDRNOTAVAIL', 'this machine has no address 127.0.0.1'],
  ])('says what to do where the port is not to be had: %s', async (code, message) => {
    const error = Object.assign(new Error(`listen ${code}: as Node says it`), { code, syscall: 'listen' });
    const done = await run(['serve', '--config', config, '--database', database, '--port', '80'], {
      serve: () => Promise.reject(error),
    });
    expect(done).toMatchObject({ code: 1, out: '' });
    expect(done.err).toContain(message);
  });

  test('remarks on what is probably a mistake in a price or a base URL', async () => {
    const odd = join(folder, 'odd.toml');
    const sound = await readFile(config, 'utf8');
    await writeFile(
      odd,
      sound
        .replace('https://p.test/v1', 'https://p.test')
        .replace(/^in_usd_per_mtok = .*$/m, (line) => `${line}\ncache_read_usd_per_mtok = "1000"`),
    );
    const { code, err } = await run(['catalog', 'check', '--config', odd]);
    expect(code).toBe(0);
    expect(err).toContain('the base_url of p, https://p.test, has no version');
    expect(err).toMatch(/cached input of \S+ costs \$1000 per million tokens, more than other input/);
    expect((await run(['catalog', 'check', '--config', config])).err).toBe('');
  });

  test('warns that a key would be sent over plain http, and continues', async () => {
    const open = join(folder, 'open.toml');
    const secure = await readFile(config, 'utf8');
    await writeFile(open, secure.replace('https://p.test', 'http://p.test'));
    const checked = await run(['catalog', 'check', '--config', open]);
    expect(checked).toMatchObject({ code: 0 });
    expect(checked.err).toContain('the key of p is sent to p.test over plain http');
    expect((await run(['catalog', 'check', '--config', config])).err).toBe('');
    const { out } = await run(['catalog', 'check', '--config', open, '--json']);
    expect(JSON.parse(out)).toMatchObject({ ok: true, remarks: [expect.stringContaining('p.test')] });
    const served = await run(['serve', '--config', open, '--database', database], {
      serve: () =>
        Promise.resolve({ port: 1, reload: () => Promise.resolve(), stop: () => Promise.resolve() }),
    });
    expect(served).toMatchObject({ code: 0 });
    expect(served.err).toContain('over plain http');
  });

  test('does not start with a faulty configuration, nor without one', async () => {
    expect(await run(['serve', '--config', config], { env: {} })).toMatchObject({ code: 2, out: '' });
    const none = await run(['serve', '--config', join(folder, 'none.toml')]);
    expect(none.code).toBe(2);
    expect(none.err).toContain('there is no such file; copy gateway.example.toml');
  });
});

describe('a configuration with faults', () => {
  const fileWith = async (text: string) => {
    const path = join(folder, 'faulty.toml');
    await writeFile(path, text);
    return ['--config', path];
  };
  const faultyModel = '[[models]]\nid = "small"\nin_usd_per_mtok = 0.1\n';

  test('does not keep a key from being disabled, as long as it names the database', async () => {
    await onBooks('account', 'create', 'acme');
    await onBooks('key', 'create', '--account', 'acme');
    const { data } = (await json('key', 'list')) as { data: { id: string }[] };
    const id = data[0]?.id ?? '';
    const file = await fileWith(`database = "${database}"\n${faultyModel}`);
    expect(await run(['key', 'disable', id, ...file])).toMatchObject({ code: 0, err: '' });
    expect(await run(['key', 'update', id, '--models', 'small', ...file])).toMatchObject({
      code: 0,
      err: '',
    });
    expect((await run(['ledger', 'audit', ...file])).out).toContain('the ledger is consistent');
    expect((await run(['catalog', 'check', ...file])).code).toBe(1);
    expect((await run(['serve', ...file])).code).toBe(2);
  });

  test.each([
    ['is misspelled', (url: string) => `databse = "${url}"\n`],
    ['is in another table', (url: string) => `[limits]\ndatabase = "${url}"\n`],
    ['is missing', () => faultyModel],
    ['is invalid', () => `database = "sqlit:x.db"\n${faultyModel}`],
    ['is not TOML', () => 'database = "'],
  ])('is refused where the database %s, and the message says what works', async (_, text) => {
    const refused = await run(['account', 'list', ...(await fileWith(text(database)))], {
      openDatabase: () => Promise.reject(new Error('opened')),
    });
    expect(refused).toMatchObject({ code: 2, out: '' });
    expect(refused.err).toContain('lathe: --database URL names the database in place of the configuration\n');
    const named = await onBooks('account', 'list', ...(await fileWith(text(database))));
    expect(named.code).toBe(0);
  });
});

describe('invalid command lines', () => {
  test.each<[string, RegExp]>([
    [
      'account creat x',
      /unknown command 'account creat' \(did you mean 'account create'\?\); the commands are: account create, /,
    ],
    [
      'ledger reconcile',
      /unknown command 'ledger reconcile'; the commands are: ledger audit, ledger archive, ledger verify\n/,
    ],
    ['acount list', /did you mean 'account list'\?\)\n/],
    ['check', /unknown command 'check' \(did you mean 'catalog check'\?\)\n/],
    ['launch', /unknown command 'launch'; the commands are: serve, account, key, usage, budget, /],
    ['servee', /did you mean 'serve'\?/],
    [
      'ledger audit --admin-url http://127.0.0.1:1',
      /--admin-url does not belong to the command ledger audit, which works on the database: name it with --database/,
    ],
    ['ledger', /'ledger' needs a subcommand: ledger audit/],
    ['account create', /account create needs NAME/],
    ['account credit acme', /account credit needs USD/],
    ['account create a b', /takes NAME, got also 'b'/],
    ['key create', /key create needs --account NAME/],
    ['account list --port 1', /--port does not belong to the command account list/],
    [
      'serve --prot 1',
      /^lathe: unknown flag --prot \(did you mean --port\?\)\nSee: node dist\/gateway\.js serve --help\n$/,
    ],
    ['serve x --prot 1', /serve takes no arguments, got also 'x'\n/],
    ['serve --port 65536', /--port: expected a whole number from 0 to 65535, got '65536'/],
    ['serve --port', /--port needs a value/],
    ['serve --port --json', /--port needs a value/],
    ['serve --json=1', /--json takes no value/],
    ['serve --port 1 --port 2', /--port is given twice/],
    ['account create a --credit-usd 1e3', /--credit-usd: expected US dollars as decimal text/],
    ['account create a --credit-usd -1', /--credit-usd: must not be negative/],
    ['account create a --credit-usd 0.0000000001', /at most 9 decimals \(a nanodollar\)/],
    ['account credit a five', /USD: expected US dollars/],
    ['key create --account a --expires soon', /--expires: expected a duration such as 90d/],
    ['key create --account a --expires 2030-13-01', /--expires/],
    ['key create --account a --expires 2030-02-31', /--expires: expected a duration/],
    ['key create --account a --expires 2020-01-01', /--expires: 2020-01-01T00:00:00\.000Z is in the past/],
    ['key create --account a --models ,', /--models: expected ids of models/],
    ['key update k_1', /key update needs one of --label, --cap-usd, --expires, --models/],
    ['key update', /key update needs ID/],
    ['key update k_1 --expires 2020-01-01', /is in the past/],
    ['account update acme', /account update needs --name NAME or --parent NAME/],
    ['budget set --usd 1 --per day', /either --key ID or --account NAME/],
    ['budget set --key k --account a --usd 1 --per day', /either --key ID or --account NAME/],
    ['budget set --key k', /needs --usd USD/],
    ['budget set --key k --usd 1 --per year', /--per: expected day, week, month/],
    [
      'budget set --key k --usd 1 --per 5d --time-zone UTC',
      /^lathe: --time-zone: a budget per 5d has no time zone; use/,
    ],
    ['budget set --key k --usd 1 --per day --time-zone X/Y', /--time-zone: there is no time zone 'X\/Y'/],
    ['key update k_1 --rpm 0', /--rpm: expected a whole number from 1 to 10000000 requests/],
    ['changes --limit 0', /--limit: expected a whole number from 1 to 10000 entries/],
    ['endpoint add VLLM --account a --base-url http://x', /expected KIND:SLUG/],
    ['account list --config nowhere.toml', /nowhere\.toml: there is no such file/],
  ])('%s', async (line, message) => {
    const refused = await run(line.split(' '), { openDatabase: () => Promise.reject(new Error('opened')) });
    expect(refused.err).toMatch(message);
    expect(refused.err).toMatch(/See: node dist\/gateway\.js (?:[a-z]+ ){0,2}--help\n$/);
    expect(refused).toMatchObject({ code: 2, out: '' });
  });

  test('a database URL is not repeated, for it may hold a password', async () => {
    const { err, code } = await run(['account', 'list', '--database', 'mysql://u:hunter2@h/d']);
    expect([code, err.includes('hunter2')]).toEqual([2, false]);
  });

  test('all faults of a command line are reported at once', async () => {
    const { err } = await run(['key', 'create', 'x', '--cap-usd', 'y', '--port', '1', '--nope']);
    expect(err.split('\n').filter((line) => line.startsWith('lathe: '))).toHaveLength(5);
  });

  test('a file that is missing is named', async () => {
    const gone = join(folder, 'gone');
    for (const line of [
      `account list --admin-url http://127.0.0.1:1 --admin-token-file ${gone}`,
      `serve --admin-port 0 --admin-token-file ${gone} --config ${config}`,
      `catalog import ${gone} --provider p`,
    ])
      expect((await run(line.split(' '))).err).toContain(`${gone}: there is no such file\n`);
  });

  test('ledger errors exit with 1', async () => {
    await onBooks('account', 'create', 'acme');
    const unknown = await onBooks('account', 'credit', 'acne', '1');
    expect(unknown).toMatchObject({ code: 1, out: '' });
    expect(unknown.err).toContain("there is no account 'acne' (did you mean 'acme'?)");
    expect((await onBooks('key', 'revoke', 'k_none')).code).toBe(1);
    const tooMuch = await onBooks('account', 'credit', 'acme', '-0.000000001');
    expect(tooMuch.code).toBe(1);
    expect(tooMuch.err).toBe('lathe: acme has $0.00 free; $0.000000001 cannot be taken from it\n');
  });
});

describe('an empty database', () => {
  test('is named in messages, because it may be the wrong one', async () => {
    const listed = await onBooks('account', 'list');
    expect(listed.code).toBe(0);
    expect(listed.err).toContain(`there are no accounts in ${database};`);
    const keyed = await onBooks('key', 'create', '--account', 'acme');
    expect(keyed.code).toBe(1);
    expect(keyed.err).toContain(`there is no account 'acme', nor any other in ${database};`);
  });

  test('is named without a password', async () => {
    const elsewhere: Partial<CliEnvironment> = {
      openDatabase: (options) => openGatewayDatabase({ ...options, database }),
    };
    for (const url of ['postgres://u:hun%40ter@h:5/d?password=ter2', 'postgres://u@h:5/d?sslkey=hunter']) {
      const { err } = await run(['account', 'list', '--database', url], elsewhere);
      expect(err).toContain('in postgres://h:5/d;');
    }
  });
});

describe('a database that is missing', () => {
  const missing = () => `sqlite:${join(folder, 'missing.db')}`;
  test.each([
    'account list',
    'account disable acme',
    'key create --account acme',
    'budget list',
    'usage',
    'changes',
    'receipt req_1',
    'ledger audit',
    'endpoint list',
  ])('%s does not create it, and says so', async (line) => {
    const refused = await run([...line.split(' '), '--database', missing()]);
    expect(refused).toMatchObject({ code: 1, out: '' });
    expect(refused.err).toBe(
      `lathe: there is no database ${missing()}; \`account create NAME\` and \`serve\` create it, --config or --database selects another\n`,
    );
    expect(existsSync(missing().slice(7))).toBe(false);
  });

  test('is not looked for in a data directory that would be created', async () => {
    const home = join(folder, 'home');
    const refused = await run(['account', 'list'], { home, env: {} });
    expect(refused.err).toContain(`there is no database sqlite:${join(home, '.local/share/lathe/lathe.db')}`);
    expect(existsSync(home)).toBe(false);
    expect(await run(['account', 'create', 'acme'], { home, env: {} })).toMatchObject({ code: 0 });
    expect((await run(['account', 'list'], { home, env: {} })).out).toContain('acme');
  });
});

describe('help', () => {
  test('is also a command', async () => {
    const all = await run(['help']);
    expect(all).toMatchObject({ code: 0, err: '' });
    expect(all.out).toBe((await run(['--help'])).out);
    expect((await run(['help', 'key', 'create'])).out).toBe((await run(['key', 'create', '--help'])).out);
  });

  test('of a group lists its commands', async () => {
    const { out } = await run(['key', '--help']);
    expect(out).toContain('  key create ');
    expect(out).not.toContain('account create');
    expect((await run(['help', 'key'])).out).toBe(out);
    expect((await run(['help', 'kye'])).out).toContain('account create');
  });

  test('lists every command and its arguments', async () => {
    const { out } = await run([]);
    for (const name of commandNames) expect(out).toContain(`  ${name}`);
    expect((await run(['--version'])).out).toBe('lathe 1.2.3\n');
    const one = await run(['key', 'create', '--help']);
    expect(one.out).toMatch(/^node dist\/gateway\.js key create --account NAME \[options\]/);
    expect(one.out).toContain('--models ID,ID');
    expect(out.split('\n').every((line) => line.length <= 101)).toBe(true);
  });
});

describe('amounts', () => {
  test('are parsed and formatted exactly', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: -(10n ** 18n), max: 10n ** 18n }), (nano) => {
        expect(parseNanodollars(formatDollars(nano))).toBe(nano);
      }),
    );
    expect([0n, 1n, -1n, 5_000_000_000n, 1_230_000_000n, 10n ** 9n + 1n].map(formatDollars)).toEqual([
      '$0.00',
      '$0.000000001',
      '-$0.000000001',
      '$5.00',
      '$1.23',
      '$1.000000001',
    ]);
  });

  test('below zero are arguments, not flags', () => {
    expect(parseGatewayArgs(['account', 'credit', 'a', '-5.25'])).toMatchObject({ words: ['a', '-5.25'] });
    expect(parseGatewayArgs(['account', 'create', '--', '--odd'])).toMatchObject({ words: ['--odd'] });
  });
});
