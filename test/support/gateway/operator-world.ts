/** A gateway process with an operator listener, a scripted provider behind it, and what a team would have there. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { freshSqlite } from '../databases.ts';
import { freshDataDir } from '../host.ts';
import { ledgerOn } from '../ledger.ts';
import { wires } from './asks.ts';
import { gatewayProcess } from './gateways.ts';
import { type FakeProvider, fakeProvider, type ProviderReply } from './provider.ts';

export const operatorToken = 'ada-token-that-is-long-enough-1';
type Json = Record<string, unknown>;

const modelTable = (id: string, provider: string, prices: string, more = '') => `[[models]]
id = "${id}"
${provider === '' ? '' : `provider = "${provider}"`}
family = "${provider === 'anthropic' ? 'anthropic' : 'openai'}"
caps = ["chat", "tools", "images", "structured_output"]
context_window = 200_000
max_output_tokens = 16_000
${prices}
${more}
`;

/** A catalog of four models at five providers, as a team has it. */
const configOf = (provider: FakeProvider) => `
${[
  ['openai', 'openai-chat'],
  ['azure-east', 'openai-chat'],
  ['azure-west', 'openai-chat'],
  ['anthropic', 'anthropic-messages'],
  ['google', 'google'],
]
  .map(
    ([id, wire]) => `[[providers]]
id = "${id}"
wire = "${wire}"
base_url = "${provider.baseUrl(wire as 'google')}"
api_key_env = "HOUSE_KEY"
`,
  )
  .join('')}
${modelTable(
  'gpt-5',
  '',
  'in_usd_per_mtok = "1.25"\nout_usd_per_mtok = "10"\nrouting = "weighted"',
  `[models.tiers]
flex = { in_usd_per_mtok = "0.625", out_usd_per_mtok = "5" }
[[models.deployments]]
provider = "azure-east"
weight = 3
[[models.deployments]]
provider = "azure-west"
requests_per_minute = 600
`,
)}
${modelTable('gpt-5-mini', 'openai', 'in_usd_per_mtok = "0.25"\nout_usd_per_mtok = "2"')}
${modelTable('claude-sonnet', 'anthropic', 'in_usd_per_mtok = "3"\nout_usd_per_mtok = "15"\ncache_read_usd_per_mtok = "0.3"')}
${modelTable('gemini-flash', 'google', 'in_usd_per_mtok = "0.3"\nout_usd_per_mtok = "2.5"')}
[aliases]
fast = "gpt-5-mini"
smart = "claude-sonnet"
[[fallbacks]]
model = "gemini-flash"
to = ["gpt-5-mini"]
[limits]
concurrency = 1000
requests_per_minute = 1_000_000
retries = 0
breaker_failures = 3
breaker_secs = 600
`;

/** Opens the world: a gateway without accounts. */
export async function operatorWorld() {
  const provider = await fakeProvider([{ say: { text: 'Yes.', usage: { input: 1000, output: 12_000 } } }]);
  const database = freshSqlite();
  const folder = freshDataDir();
  const config = join(folder, 'gateway.toml');
  writeFileSync(config, configOf(provider));
  const tokens = join(folder, 'tokens');
  writeFileSync(tokens, `ada ${operatorToken}\n`);
  const gateway = await gatewayProcess(config, database, ['--admin-port', '0', '--admin-token-file', tokens]);
  const [, adminUrl = ''] = /metrics on (\S+)\/metrics/.exec(gateway.output.stdout) ?? [];
  /** Calls the admin API. @throws Error on an error status */
  async function call<Answer = Json>(method: string, route: string, content?: unknown): Promise<Answer> {
    const response = await fetch(`${adminUrl}/admin/v1${route}`, {
      method,
      headers: {
        authorization: `Bearer ${operatorToken}`,
        ...(content === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(content === undefined ? {} : { body: JSON.stringify(content) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${route}: ${response.status} ${text}`);
    return JSON.parse(text) as Answer;
  }
  /** Sends a completion with a key. */
  async function ask(key: string, model: string, user?: string) {
    const response = await fetch(`${gateway.url}${wires.chat.path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        ...wires.chat.body(model, false),
        max_tokens: 16_000,
        ...(user === undefined ? {} : { user }),
      }),
    });
    await response.text();
    return { status: response.status, requestId: response.headers.get('x-svc-request-id') ?? '' };
  }
  return {
    provider,
    database,
    /** Writes the configuration, changed; the gateway reads it when it is told to. */
    writeConfig: (change: (text: string) => string) => writeFileSync(config, change(configOf(provider))),
    gateway,
    adminUrl,
    call,
    ask,
    async close() {
      await gateway.end();
      await provider.close();
    },
  };
}

export type OperatorWorld = Awaited<ReturnType<typeof operatorWorld>>;

/** Accounts, keys, budgets, requests of today, a provider that fails, and the usage of the month before. */
export async function fillWorld({ call, ask, provider, database, writeConfig }: OperatorWorld) {
  await call('POST', '/accounts', { name: 'acme', credit_usd: '500', included_usd: '50' });
  for (const [name, credit] of [
    ['research', '250'],
    ['support', '120.5'],
    ['mobile-app', '80'],
  ])
    await call('POST', '/accounts', { name, parent: 'acme', credit_usd: credit });
  await call('POST', '/accounts', { name: 'globex', credit_usd: '40' });
  await call('POST', '/accounts', { name: 'trial-2025', credit_usd: '5' });
  await call('PATCH', '/accounts/trial-2025', { disabled: true });
  const keys: { id: string; key: string; account: string }[] = [];
  for (const [account, label, more] of [
    ['research', 'evaluation jobs', { cap_usd: '2', models: ['gpt-5', 'claude-sonnet'] }],
    ['research', 'notebooks', { requests_per_minute: 60, expires_at: '2099-01-31T00:00:00Z' }],
    ['support', 'ticket assistant', { cap_usd: '1', tokens_per_minute: 2_000_000, concurrency: 20 }],
    ['mobile-app', 'production', { cap_usd: '5' }],
    ['mobile-app', 'staging', { cap_usd: '2', models: ['fast'] }],
    ['globex', 'integration', {}],
    ['acme', 'old importer', { cap_usd: '10' }],
  ] as const)
    keys.push(await call('POST', '/keys', { account, label, ...more }));
  for (const budget of [
    { account: 'acme', usd: '5', per: 'month', time_zone: 'Europe/Berlin' },
    { account: 'support', usd: '0.6', per: 'day' },
    { account: 'globex', usd: '1', per: '12h' },
    { key: keys[4]?.id, usd: '0.5', per: 'week' },
  ])
    await call('POST', '/budgets', budget);
  const models = ['gpt-5', 'gpt-5-mini', 'claude-sonnet', 'smart', 'fast'];
  const requests: { status: number; requestId: string }[] = [];
  for (let at = 0; at < 24; at++) {
    const key = keys[at % 6]?.key ?? '';
    requests.push(await ask(key, models[at % models.length] ?? '', `user-${at % 4}`));
  }
  provider.script([{ status: 503, message: 'The engine is overloaded.' } satisfies ProviderReply]);
  for (const key of [0, 1, 2, 3, 5]) requests.push(await ask(keys[key]?.key ?? '', 'claude-sonnet'));
  provider.script([{ say: { text: 'Yes.', usage: { input: 1000, output: 12_000 } } }]);
  await call('DELETE', `/keys/${keys[6]?.id}`);
  await call('PATCH', `/keys/${keys[5]?.id}`, { disabled: true });
  await call('PATCH', '/providers/azure-west', { disabled: true, note: 'Outage, ticket 17' });
  await writeHistory(database, keys);
  writeConfig((text) => text.replace('provider = "openai"', 'provider = "opennai"'));
  await call('POST', '/reload', {}).catch(() => undefined);
  return { keys, requests };
}

/** Writes the usage of the 29 days before today. */
async function writeHistory(
  database: string,
  keys: readonly { readonly id: string; readonly account: string }[],
): Promise<void> {
  const books = await ledgerOn(database);
  const rows = Array.from({ length: 29 }, (_, ago) => {
    const date = new Date(Date.now() - (ago + 1) * 86_400_000);
    const weekday = date.getUTCDay() % 6 === 0 ? 0.35 : 1;
    return [
      ['gpt-5', 'azure-east', 9],
      ['gpt-5-mini', 'openai', 4],
      ['claude-sonnet', 'anthropic', 13],
      ['gemini-flash', 'google', 2],
    ].map(([model, provider, base], index) => {
      const wave = 1 + 0.3 * Math.sin(ago / 3 + index * 2) - ago * 0.012;
      const requests = Math.max(1, Math.round(Number(base) * 130 * weekday * wave));
      const key = keys[(ago + index) % 6];
      return {
        key_id: key?.id ?? '',
        account_id: key?.account ?? '',
        day: date.toISOString().slice(0, 10),
        provider: String(provider),
        model: String(model),
        tag: `user-${index}`,
        requests: BigInt(requests),
        prompt_tokens: BigInt(requests * 1900),
        cached_tokens: BigInt(requests * 600),
        completion_tokens: BigInt(requests * 240),
        spent: BigInt(requests) * BigInt(Number(base) * 220_000),
      };
    });
  }).flat();
  try {
    await books.store.transaction((tx) => tx.insertInto('gateway_usage').values(rows).execute());
  } finally {
    await books.close();
  }
}
