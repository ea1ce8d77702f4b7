/** `gateway.toml`: its meaning, and its faults: all at once, each with its line, the expected and the actual value. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { UsageError } from '../../src/config/usage.ts';
import { GatewayFile } from '../../src/gateway/config/gateway-file.ts';

const master = Buffer.alloc(32, 1).toString('base64');
const env = { KEY: 'sk-test', MASTER: master, OLD: Buffer.alloc(32, 2).toString('hex') };
const fileOf = (
  source: string,
  more: Readonly<Record<string, string | undefined>> = {},
  folder = '/etc/lathe',
) => new GatewayFile(source, { name: 'gateway.toml', folder, env: { ...env, ...more } });
const configOf = (source: string, more?: Readonly<Record<string, string | undefined>>, folder?: string) =>
  fileOf(source, more, folder).config();

async function faults(work: Promise<unknown>): Promise<readonly string[]> {
  try {
    await work;
  } catch (error) {
    if (error instanceof UsageError) return error.faults;
    throw error;
  }
  return [];
}

const provider = `[[providers]]
id = "p"
wire = "openai-chat"
base_url = "https://p.test/v1/"
api_key_env = "KEY"
`;
const model = (id: string, more = '') => `[[models]]
id = "${id}"
provider = "p"
family = "openai"
caps = ["chat"]
context_window = 1000
max_output_tokens = 100
in_usd_per_mtok = "0.075"
out_usd_per_mtok = "2"
${more}
`;

/** A model with these deployments. @param settings lines of the model */
const deployed = (settings: string, ...deployments: readonly string[]) =>
  model('m', settings).replace('provider = "p"\n', '') +
  deployments.map((lines) => `[[models.deployments]]\n${lines}\n`).join('');

let folder = '';
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lathe-gateway-config-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

describe('what a file means', () => {
  test('the shipped example is valid', async () => {
    const source = readFileSync(new URL('../../gateway.example.toml', import.meta.url), 'utf8');
    const config = await configOf(source, {
      OPENAI_API_KEY: 'sk-1',
      ANTHROPIC_API_KEY: 'sk-2',
      LATHE_MASTER_KEY: master,
    });
    expect(config.models.map(({ id }) => id)).toEqual([
      'gpt-small',
      'sonnet',
      'flash',
      'house',
      'embed-small',
    ]);
    expect(config.byok).toEqual([
      {
        id: 'google',
        wire: 'google',
        baseUrl: 'https://generativelanguage.googleapis.com/v1beta',
        hostSuffixes: [],
        basePath: '',
      },
      {
        id: 'anthropic',
        wire: 'anthropic-messages',
        baseUrl: 'https://api.anthropic.com/v1',
        hostSuffixes: [],
        basePath: '',
      },
      {
        id: 'azure',
        wire: 'openai-chat',
        baseUrl: undefined,
        hostSuffixes: ['.openai.azure.com'],
        basePath: '/openai/v1',
      },
    ]);
    // The commented values of [limits] are the defaults.
    expect(config.limits).toEqual((await configOf('')).limits);
  });

  test('a model with every member', async () => {
    const source = `${provider}${model(
      'm',
      `upstream = "m-1"
display_name = "M"
efforts = ["high", "low"]
cache_read_usd_per_mtok = "0.01"
long_context = { over = 500, in_usd_per_mtok = "0.15", out_usd_per_mtok = "4" }`,
    ).replace('["chat"]', '["chat", "reasoning"]')}
[aliases]
auto = "m"
`;
    const { models, aliases, providers } = await configOf(source);
    expect(providers).toEqual([
      {
        id: 'p',
        wire: 'openai-chat',
        baseUrls: ['https://p.test/v1'],
        apiKey: 'sk-test',
        apiKeySource: { kind: 'env', name: 'KEY' },
        access: 'house',
      },
    ]);
    expect(models[0]).toMatchObject({
      id: 'm',
      upstream: 'm-1',
      displayName: 'M',
      efforts: ['low', 'high'],
      price: {
        input: 75_000n,
        output: 2_000_000n,
        cacheRead: 10_000n,
        cacheWrite: 75_000n,
        longContext: { over: 500, price: { input: 150_000n, output: 4_000_000n } },
      },
    });
    expect(models[0]?.provider).toBe(providers[0]);
    expect([...aliases]).toEqual([['auto', 'm']]);
  });

  test('deployments: each with its provider, name, share, limits and prices', async () => {
    const source = `${provider}${provider.replace('"p"', '"q"')}${deployed(
      'routing = "weighted"\nsticky = true\nupstream = "m-1"\ncache_read_usd_per_mtok = "0.01"',
      'provider = "p"\nweight = 3\nconcurrency = 8',
      `provider = "q"
upstream = "m-2"
requests_per_minute = 60
in_usd_per_mtok = "0.05"
out_usd_per_mtok = "1"
long_context = { over = 500, in_usd_per_mtok = "0.1", out_usd_per_mtok = "2" }`,
      'provider = "q"',
    )}`;
    const { models, providers } = await configOf(source);
    const [first] = models;
    expect(first?.routing).toMatchObject({
      strategy: 'weighted',
      sticky: true,
      deployments: [
        { id: 'p/m-1', weight: 3, priority: 1, requestsPerMinute: undefined, concurrency: 8 },
        { id: 'q/m-2', weight: 1, priority: 1, requestsPerMinute: 60, concurrency: undefined },
        { id: 'q/m-1' },
      ],
    });
    const served = first?.routing?.deployments.map(({ model: one }) => one) ?? [];
    expect(served.map(({ provider: one }) => providers.indexOf(one as never))).toEqual([0, 1, 1]);
    expect(served.map(({ upstream }) => upstream)).toEqual(['m-1', 'm-2', 'm-1']);
    // A deployment without prices has all of the model's; one with a price has none of them.
    expect(served.map(({ price }) => [price.input, price.output, price.cacheRead])).toEqual([
      [75_000n, 2_000_000n, 10_000n],
      [50_000n, 1_000_000n, 50_000n],
      [75_000n, 2_000_000n, 10_000n],
    ]);
    expect(served.map(({ price }) => price.longContext?.over)).toEqual([undefined, 500, undefined]);
    // The model itself is as its first deployment serves it.
    expect(first).toMatchObject({ id: 'm', upstream: 'm-1', provider: providers[0] });
    const [plain] = (await configOf(provider + deployed('', 'provider = "p"'))).models;
    expect(plain?.routing).toMatchObject({ strategy: 'priority', sticky: false });
  });

  test('secrets come from variables and files beside the configuration', async () => {
    await writeFile(join(folder, 'p.key'), 'sk-of-a-file\n');
    await writeFile(join(folder, 'old.key'), Buffer.alloc(32, 2).toString('base64url'));
    const source = `database = "sqlite:data/gateway.db"
${provider.replace('api_key_env = "KEY"', 'api_key_file = "p.key"')}
[secrets]
master_key_env = "MASTER"
previous = [{ env = "OLD" }, { file = "old.key" }]
`;
    const { providers, masterKeys } = await configOf(source, {}, folder);
    expect(providers[0]?.apiKey).toBe('sk-of-a-file');
    expect(masterKeys.map(({ key }) => key)).toEqual([
      Buffer.alloc(32, 1),
      Buffer.alloc(32, 2),
      Buffer.alloc(32, 2),
    ]);
    expect(masterKeys[0]?.id).toMatch(/^mk_[0-9a-f]{16}$/);
    // The same key has the same id in every encoding.
    expect(masterKeys[1]?.id).toBe(masterKeys[2]?.id);
    expect(await fileOf(source, {}, folder).database()).toBe(`sqlite:${folder}/data/gateway.db`);
    expect(await fileOf('database_env = "DB"', { DB: 'postgres://u:p@h/d' }).database()).toBe(
      'postgres://u:p@h/d',
    );
  });

  test('a model is cached as [cache] and then its own table say', async () => {
    const source = `${provider}${model('m', 'cache = { ttl_secs = 5 }')}${model('n')}[cache]\nhit_price_percent = 10\n`;
    const config = await configOf(source);
    expect(config.cache).toEqual({ maxEntries: 10_000, maxBytes: 268_435_456 });
    expect(config.models.map(({ cache }) => cache)).toEqual([
      { use: 'always', ttlSecs: 5, hitPrice: { percent: 10 } },
      { use: 'always', ttlSecs: 3600, hitPrice: { percent: 10 } },
    ]);
    const several = await configOf(
      `${provider}${deployed('cache = { use = "never" }', 'provider = "p"')}[cache]\n`,
    );
    expect(several.models[0]?.routing?.deployments[0]?.model.cache?.use).toBe('never');
    expect((await configOf(`${provider}${model('m')}`)).models[0]?.cache).toBeUndefined();
  });

  test('hooks have the keys of their secrets, in the order of the file', async () => {
    const HOOK = `whsec_${Buffer.alloc(32, 5).toString('base64')}`;
    const source = `[[hooks]]\nname = "a"\nredact = true\n[[hooks]]\nname = "b"\nurl = "https://x.test/b?c=d"\nsecret_env = "HOOK"\n`;
    const { hooks } = await configOf(source, { HOOK });
    expect(hooks).toEqual([
      {
        kind: 'redact',
        name: 'a',
        models: undefined,
        stage: 'before',
        expressions: ['@credentials', '@emails'],
      },
      {
        kind: 'http',
        name: 'b',
        models: undefined,
        stage: 'before',
        url: 'https://x.test/b?c=d',
        key: Buffer.alloc(32, 5),
        timeoutMs: 2000,
        onFailure: 'block',
      },
    ]);
  });

  test('a webhook has the key of its secret', async () => {
    const HOOK = `whsec_${Buffer.alloc(32, 5).toString('base64')}`;
    const source = '[webhook]\nurl = "https://ops.test/hook?token=t"\nsecret_env = "HOOK"\n';
    const { webhook } = await configOf(source, { HOOK });
    expect(webhook).toEqual({ url: 'https://ops.test/hook?token=t', key: Buffer.alloc(32, 5) });
    const [fault = '', ...others] = await faults(configOf(source, { HOOK: 'sk-hidden' }));
    expect(others).toEqual([]);
    expect(fault).toMatch(/^gateway\.toml:3: webhook\.secret_env: expected whsec_ and 24 to 64 bytes/);
    expect(fault).not.toContain('sk-hidden');
  });

  test('secrets that a command does not need may be missing', async () => {
    const source = `${provider}${model('m')}[secrets]\nmaster_key_env = "MASTER"\n`;
    const bare = fileOf(source, { KEY: undefined });
    expect(await bare.database()).toBeUndefined();
    expect(await bare.masterKeys()).toHaveLength(1);
    expect(await bare.modelNames()).toEqual(['m']);
    expect(await faults(bare.config())).toHaveLength(1);
  });

  test("the host's models are added to those of the file", async () => {
    const source = '[aliases]\nauto = "lathe-tiny"\n';
    expect(await faults(configOf(source))).toEqual([
      "gateway.toml:2: aliases.auto: there is no model 'lathe-tiny'",
    ]);
    const options = { name: 'gateway.toml', folder: '/', env, residentIds: ['lathe-tiny'] };
    expect((await new GatewayFile(source, options).config()).aliases.get('auto')).toBe('lathe-tiny');
  });
});

describe('faults', () => {
  test('are reported at once, each with its line, the expected and the actual value', async () => {
    const source = `modles = 1
[[providers]]
id = "P!"
wire = "openai"
base_url = "ftp://x"
api_key = "sk-very-secret"

[[providers]]
id = "two"
wire = "openai-chat"
base_url = ["https://a.test", "https://b.test"]
api_key_env = "sk-very-secret"

[[models]]
id = "m"
provider = "tow"
family = "openai"
caps = ["chat", "vision"]
context_window = 0.5
max_output_tokens = 100
in_usd_per_mtok = 0.15
out_usd_per_mtok = "-2"
cache_read_usd_per_mtok = "1e-3"
long_context = { ovr = 5, in_usd_per_mtok = "1" }

[limits]
retries = 99
[byok.p]
basepath = "/v1"
[secrets]
previous = [{ env = "OLD", file = "x" }]
[[fallbacks]]
model = "m"
to = []
`;
    expect(await faults(configOf(source))).toEqual([
      'gateway.toml:1: modles: unknown key (did you mean models?)',
      'gateway.toml:3: providers[0].id: expected a lower-case letter and up to 31 lower-case letters, digits and dashes, got "P!"',
      'gateway.toml:4: providers[0].wire: expected one of openai-chat, openai-responses, anthropic-messages, google, lathe, got "openai"',
      'gateway.toml:5: providers[0].base_url: expected an http:// or https:// URL',
      'gateway.toml:6: providers[0].api_key: unknown key (did you mean api_key_env?)',
      'gateway.toml:12: providers[1].api_key_env: expected the name of an environment variable: letters, digits and _',
      'gateway.toml:18: models[0].caps[1]: expected one of chat, tools, images, reasoning, structured_output, completions, embeddings, caching, got "vision"',
      'gateway.toml:19: models[0].context_window: expected a whole number from 1 to 100000000 tokens, got 0.5',
      'gateway.toml:21: models[0].in_usd_per_mtok: expected decimal text in quotes, as "0.15": a number is binary floating point, which cannot hold most prices exactly, got 0.15',
      'gateway.toml:22: models[0].out_usd_per_mtok: must not be negative, got "-2"',
      'gateway.toml:23: models[0].cache_read_usd_per_mtok: must be written out, without an exponent, as "0.075", got "1e-3"',
      'gateway.toml:24: models[0].long_context.over: is missing; expected a whole number from 1 to 100000000 tokens',
      'gateway.toml:24: models[0].long_context.out_usd_per_mtok: is missing; expected US dollars a million tokens as decimal text, as "0.075"',
      'gateway.toml:24: models[0].long_context.ovr: unknown key (did you mean over?)',
      'gateway.toml:27: limits.retries: expected a whole number from 0 to 10, got 99',
      'gateway.toml:29: byok.p.basepath: unknown key (did you mean base_path?)',
      'gateway.toml:30: secrets: needs master_key_env = "NAME" or master_key_file = "PATH"',
      'gateway.toml:31: secrets.previous[0]: needs one of env = "NAME" and file = "PATH"',
      'gateway.toml:34: fallbacks[0].to: must name at least one model, got []',
    ]);
  });

  const cases: readonly (readonly [string, string, readonly RegExp[]])[] = [
    [
      'a provider twice',
      provider + provider,
      [/^gateway\.toml:7: providers\[1\]\.id: 'p' is the id of an earlier/],
    ],
    ['the reserved provider', provider.replace('"p"', '"local"'), [/'local' is the host's own/]],
    [
      'several URLs of one that is no pool',
      provider.replace('"https://p.test/v1/"', '["https://a.test", "https://b.test"]'),
      [/:4: providers\[0\]\.base_url: only the wire lathe/],
    ],
    [
      'a URL with a password',
      provider.replace('https://', 'https://u:hunter2@'),
      [/:4: .*must not hold a user or password; name the key with api_key_env or api_key_file$/],
    ],
    [
      'no key',
      provider.replace('api_key_env = "KEY"', ''),
      [/:1: providers\[0\]: needs api_key_env .* access = "byok"/],
    ],
    [
      'two keys',
      `${provider}api_key_file = "k"`,
      [/:6: providers\[0\]\.api_key_file: api_key_env is set too/],
    ],
    [
      'access without a table',
      `${provider}access = "byok"`,
      [/uses callers' keys only/, /needs a table \[byok\.p\]/],
    ],
    [
      'a model twice',
      provider + model('m') + model('m'),
      [/:17: models\[1\]\.id: 'm' is the id of an earlier model/],
    ],
    [
      'an unknown provider',
      provider + model('m').replace('"p"', '"pp"'),
      [/models\[0\]\.provider: there is no provider 'pp' \(did you mean 'p'\?\)/],
    ],
    [
      'an id of an endpoint',
      provider + model('vllm:lab/m'),
      [/'vllm:lab\/m' would be read as a model of an endpoint/],
    ],
    ['an id of a deployment', provider + model('azure/m'), [/would be read as a deployment/]],
    [
      'an id that spells another model',
      provider + model('m') + model('p/m'),
      [/'p\/m' would be read as the model 'm' of the provider 'p'/],
    ],
    [
      'more output than window',
      provider + model('m').replace('= 100\n', '= 1001\n'),
      [/max_output_tokens: must not be more than context_window, 1000; got 1001/],
    ],
    [
      'a long context beyond the window',
      provider + model('m', 'long_context = { over = 1000, in_usd_per_mtok = "1", out_usd_per_mtok = "1" }'),
      [/long_context\.over: must be less than context_window, 1000; got 1000/],
    ],
    [
      'hedging without deployments',
      provider + model('m', 'hedge = true'),
      [/models\[0\]\.hedge: belongs to models with tables \[\[models\.deployments\]\]/],
    ],
    [
      'hedging with one deployment',
      provider + deployed('hedge = true', 'provider = "p"'),
      [/models\[0\]\.hedge: asks a second deployment, and this model has one/],
    ],
    [
      'prices of tools and tiers that cannot be used',
      provider +
        model(
          'm',
          `hosted_tools = { max_calls = 0 }
tiers = { flex = { in_usd_per_mtok = "1", out_usd_per_mtok = "1", long_context = { over = 1000, in_usd_per_mtok = "1", out_usd_per_mtok = "1" } } }`,
        ),
      [/hosted_tools\.max_calls: expected a whole number from 1 to 1000 calls, got 0/],
    ],
    [
      'tools without a price, and a long context of a tier beyond the window',
      provider +
        model(
          'm',
          `hosted_tools = { max_calls = 3 }
tiers = { flex = { in_usd_per_mtok = "1", out_usd_per_mtok = "1", long_context = { over = 1000, in_usd_per_mtok = "1", out_usd_per_mtok = "1" } } }`,
        ),
      [
        /hosted_tools: has no price; name at least one of web_search_usd_per_call, file_search_usd_per_call, code_interpreter_usd_per_call/,
        /tiers\.flex\.long_context\.over: must be less than context_window, 1000; got 1000/,
      ],
    ],
    [
      'misspelt members of tools and tiers',
      provider +
        model(
          'm',
          `hosted_tools = { web_serch_usd_per_call = "0.01" }\ntiers = { flx = {}, priority = { in = "1" } }`,
        ),
      [
        /hosted_tools\.web_serch_usd_per_call: unknown key \(did you mean web_search_usd_per_call\?\)/,
        /tiers\.priority\.in_usd_per_mtok: is missing/,
        /tiers\.priority\.out_usd_per_mtok: is missing/,
        /tiers\.priority\.in: unknown key/,
        /tiers\.flx: unknown key \(did you mean flex\?\)/,
      ],
    ],
    [
      'no output price',
      provider + model('m').replace('out_usd_per_mtok = "2"', ''),
      [/out_usd_per_mtok: is missing; a model that answers has one/],
    ],
    [
      'a model that does nothing',
      provider + model('m').replace('"chat"', '"tools"'),
      [/needs one of chat, completions/],
    ],
    [
      'efforts of one that does not think',
      provider + model('m', 'efforts = ["low"]'),
      [/efforts: belongs to models/],
    ],
    [
      'an alias to nothing',
      `${provider}${model('mode-l')}[aliases]\na = "model"`,
      [/there is no model 'model' \(did you mean 'mode-l'\?\)/],
    ],
    [
      'an alias that hides a model',
      `${provider}${model('m')}[aliases]\nm = "m"`,
      [/aliases\.m: would hide the model/],
    ],
    [
      'an alias of an alias',
      `${provider}${model('m')}[aliases]\na = "m"\nb = "a"`,
      [/aliases\.b: 'a' is an alias itself/],
    ],
    [
      'fallbacks to unknown models',
      `${provider}${model('m')}[aliases]\na = "m"\n[[fallbacks]]\nmodel = "n"\nto = ["a", "m", "m"]`,
      [/\.model: there is no model 'n'/, /\.to\[0\]: 'a' is an alias/, /\.to\[2\]: 'm' is named twice/],
    ],
    [
      'a fallback to itself, and fallbacks twice',
      `${provider}${model('m')}${'[[fallbacks]]\nmodel = "m"\nto = ["m"]\n'.repeat(2)}`,
      [
        /to\[0\]: 'm' cannot be its own fallback/,
        /fallbacks\[1\]\.model: 'm' has fallbacks already/,
        /to\[0\]/,
      ],
    ],
    [
      'a fallback that can do less',
      `${provider}${model('m').replace('"chat"', '"chat", "tools", "images", "caching"')}${model('n')}[[fallbacks]]\nmodel = "m"\nto = ["n"]`,
      [/to\[0\]: 'n' lacks tools, images, which 'm' has/],
    ],
    [
      'four fallbacks',
      `${provider}${model('m')}[[fallbacks]]\nmodel = "m"\nto = ["a", "b", "c", "d"]`,
      [/at most 3 models/],
    ],
    [
      "callers' keys without a master key",
      `${provider}[byok.p]`,
      [/byok\.p: needs \[secrets\] master_key_env/],
    ],
    [
      "callers' keys of unknown providers",
      '[byok.other]\n[secrets]\nmaster_key_env = "MASTER"',
      [/byok\.other: needs wire/, /byok\.other: needs base_url/],
    ],
    [
      'one bracket',
      '[models]\nid = "m"',
      [/^gateway\.toml:1: models: expected tables \[\[models\]\], with two brackets/],
    ],
    [
      'a missing variable',
      provider.replace('"KEY"', '"NOT_THERE"'),
      [/:5: providers\[0\]\.api_key_env: the environment variable NOT_THERE is not set/],
    ],
    [
      'a missing file',
      provider.replace('api_key_env = "KEY"', 'api_key_file = "no.key"'),
      [/\/etc\/lathe\/no\.key: there is no such file/],
    ],
    [
      'a webhook with a user in its URL',
      '[webhook]\nurl = "https://me:pw@x.test"\nsecret_env = "HOOK"',
      [/:2: webhook\.url: must not hold a user or password/],
    ],
    [
      'a webhook without a secret, with a wrong URL and an unknown key',
      '[webhook]\nurl = "ftp://x"\nurls = 1',
      [/:2: webhook\.url: expected an http:\/\/ or https:\/\/ URL/, /:3: webhook\.urls: unknown key/],
    ],
    [
      'a webhook without a secret',
      '[webhook]\nurl = "https://x.test"',
      [/:1: webhook: needs secret_env = "NAME" or secret_file = "PATH"/],
    ],
    [
      'a gateway table with a text in place of true',
      '[gateway]\nmessages_for_every_model = "yes"\nmessages = true',
      [
        /:2: gateway\.messages_for_every_model: expected true or false, got "yes"/,
        /:3: gateway\.messages: unknown key/,
      ],
    ],
    [
      'hooks that could do nothing, and one that does too much',
      `${provider}${model('m')}[[hooks]]
name = "one"
[[hooks]]
name = "one"
url = "https://x.test"
models = ["n"]
[[hooks]]
name = "two"
redact = ["@mails", "("]
stage = "after"
on_failure = "allow"
[[hooks]]
name = "Three"
url = "https://me:pw@x.test"
timeout_ms = 1
on_fail = "allow"
`,
      [
        /hooks\[0\]: needs one of url = "https:\/\/..." and redact = true/,
        /hooks\[1\]: needs secret_env = "NAME" or secret_file = "PATH"/,
        /hooks\[1\]\.name: 'one' is the name of an earlier hook, too/,
        /hooks\[1\]\.models\[0\]: there is no model 'n'/,
        /hooks\[2\]\.redact\[0\]: '@mails' is not a pattern set.*@emails/,
        /hooks\[2\]\.redact\[1\]: is not a valid RE2 expression/,
        /hooks\[2\]\.stage: must be "before"/,
        /hooks\[2\]\.on_failure: belongs to hooks with a url/,
        /hooks\[3\]\.name: expected a lower-case letter/,
        /hooks\[3\]\.url: must not hold a user or password/,
        /hooks\[3\]\.timeout_ms: expected a whole number from 10 to 60000 milliseconds, got 1/,
        /hooks\[3\]\.on_fail: unknown key.*on_failure/,
      ],
    ],
    [
      'a cache with two prices and values out of range',
      '[cache]\nuse = "sometimes"\nttl_secs = 0\nhit_price_percent = 101\nmax_entry = 1',
      [
        /:2: cache\.use: expected one of always, on_request, never, got "sometimes"/,
        /:3: cache\.ttl_secs: expected a whole number from 1 to 2592000 seconds, got 0/,
        /:4: cache\.hit_price_percent: expected a whole number from 0 to 100 percent, got 101/,
        /:5: cache\.max_entry: unknown key.*max_entries/,
      ],
    ],
    [
      'a cache with two prices',
      '[cache]\nhit_price_nanousd = 1\nhit_price_percent = 1',
      [/:3: cache\.hit_price_percent: hit_price_nanousd is set too; keep one of the two/],
    ],
    [
      'a cache of a model without the limits of what is stored',
      `${provider}${model('m', 'cache = { ttl_secs = 5, max_entries = 1 }')}`,
      [/models\[0\]\.cache\.max_entries: unknown key/],
    ],
    [
      'a cache of a model without the table',
      `${provider}${model('m', 'cache = { ttl_secs = 5 }')}`,
      [/models\[0\]\.cache: needs a table \[cache\]/],
    ],
    [
      'a short master key',
      '[secrets]\nmaster_key_env = "KEY"',
      [/:2: secrets\.master_key_env: must hold 32 random bytes/],
    ],
    [
      'two databases',
      'database = "sqlite:x"\ndatabase_env = "KEY"',
      [/:2: database_env: database is set too/],
    ],
    [
      'no provider',
      provider + model('m').replace('provider = "p"', ''),
      [/:6: models\[0\]\.provider: is missing; name a provider, or add tables \[\[models\.deployments\]\]/],
    ],
    [
      'a provider, and deployments',
      `${provider}${model('m')}[[models.deployments]]\nprovider = "p"`,
      [/:8: models\[0\]\.provider: the deployments name their own providers/],
    ],
    [
      'routing without deployments',
      provider + model('m', 'routing = "weighted"\nsticky = true'),
      [/:15: models\[0\]\.routing: belongs to models with tables/, /:16: models\[0\]\.sticky: belongs/],
    ],
    [
      'deployments that are unknown, the same, or a single table',
      `${provider}${deployed('', 'provider = "pp"', 'provider = "p"', 'provider = "p"\nupstream = "m"')}
${model('n')}[models.deployments]\nprovider = "p"`,
      [
        /deployments\[0\]\.provider: there is no provider 'pp' \(did you mean 'p'\?\)/,
        /deployments\[2\]: 'm' of the provider 'p' is an earlier deployment of this model, too/,
        /models\[1\]\.deployments: expected tables \[\[models\.deployments\]\]/,
      ],
    ],
    [
      'settings of deployments that contradict the routing',
      provider +
        deployed(
          'routing = "least_latency"\nsticky = true',
          'provider = "p"\nweight = 2\npriority = 1',
          'provider = "p"\nupstream = "n"',
        ),
      [
        /:15: models\[0\]\.sticky: chooses by the prompt, and routing = "least_latency" by the time/,
        /:18: models\[0\]\.deployments\[0\]\.weight: has no effect with routing = "least_latency"/,
        /:19: models\[0\]\.deployments\[0\]\.priority: has no effect with routing = "least_latency"/,
      ],
    ],
    [
      'values and keys of deployments that do not exist',
      provider +
        deployed(
          'routing = "fastest"\nsticky = 1',
          'provider = "p"\nweight = 0\nrequests-per-minute = 5\nconcurrency = 1.5\nin_usd_per_mtok = 1',
        ),
      [
        /:14: models\[0\]\.routing: expected one of priority, weighted, least_latency, least_cost, got "fastest"/,
        /:15: models\[0\]\.sticky: expected true or false, got 1/,
        /:18: models\[0\]\.deployments\[0\]\.weight: expected a whole number from 1 to 1000, got 0/,
        /:19: .*requests-per-minute: unknown key \(did you mean requests_per_minute\?\)/,
        /:20: .*concurrency: expected a whole number/,
        /:21: .*in_usd_per_mtok: expected decimal text in quotes/,
      ],
    ],
    [
      'some prices of a deployment',
      provider +
        deployed(
          '',
          'provider = "p"\ncache_read_usd_per_mtok = "1"\nlong_context = { over = 1000, in_usd_per_mtok = "1", out_usd_per_mtok = "1" }',
        ),
      [
        /deployments\[0\]\.in_usd_per_mtok: is missing; a deployment with a price of its own takes none from the model/,
        /deployments\[0\]\.out_usd_per_mtok: is missing/,
        /deployments\[0\]\.long_context\.over: must be less than context_window, 1000; got 1000/,
      ],
    ],
    [
      'a name that a deployment has already',
      `${provider}${provider.replace('"p"', '"q"')}${deployed('', 'provider = "p"', 'provider = "q"')}${model('q/m')}`,
      [/'q\/m' would be read as the model 'm' of the provider 'q' \(p has this one\)/],
    ],
    ['what is no TOML', 'a = \n', [/^gateway\.toml:1:\d+: not valid TOML/]],
  ];
  test.each(cases)('%s', async (_, source, expected) => {
    const found = await faults(configOf(source));
    expect(found).toHaveLength(expected.length);
    for (const [index, fault] of expected.entries()) expect(found[index]).toMatch(fault);
  });

  test('two models may be fallbacks of each other: only the list of the requested model is used', async () => {
    const each = '[[fallbacks]]\nmodel = "m"\nto = ["n"]\n[[fallbacks]]\nmodel = "n"\nto = ["m"]\n';
    expect(await faults(configOf(provider + model('m') + model('n') + each))).toEqual([]);
  });

  test('no fault contains a secret', async () => {
    const secret = 'sk-planted-1234567890';
    const sources = [
      `database = "mysql://u:${secret}@h/d"`,
      provider.replace('"KEY"', `"${secret}"`),
      provider.replace('https://', `https://u:${secret}@`),
      provider.replace('api_key_env', `api_key = "${secret}"\napi_key_env`),
      `[secrets]\nmaster_key_env = "${secret}"`,
      `[secrets]\nmaster_key_env = "MASTER"\nprevious = [{ env = "${secret}" }]`,
    ];
    for (const source of sources) {
      const found = await faults(configOf(source));
      expect(found, source).not.toEqual([]);
      expect(found.join('\n')).not.toContain(secret);
    }
    const leaky = { KEY: `${secret}\nsecond line`, MASTER: secret };
    const found = await faults(configOf(`${provider}[secrets]\nmaster_key_env = "MASTER"`, leaky));
    expect(found).toHaveLength(2);
    expect(found.join('\n')).not.toContain(secret);
  });

  test('any file is a configuration or a list of faults', async () => {
    const value = fc.constantFrom(
      '1',
      '"x"',
      'true',
      '[]',
      '{}',
      '[{}]',
      '"p"',
      '1979-05-27',
      '-1',
      'nan',
      '[[1]]',
    );
    const key = fc.constantFrom(
      'id',
      'provider',
      'caps',
      'base_url',
      'long_context',
      'deployments',
      'routing',
      'sticky',
      'to',
      'model',
      'previous',
      'efforts',
      'in_usd_per_mtok',
    );
    const table = fc.constantFrom(
      '[[providers]]',
      '[[models]]',
      '[[fallbacks]]',
      '[aliases]',
      '[byok.x]',
      '[secrets]',
      '[limits]',
    );
    const source = fc
      .uniqueArray(fc.tuple(table, fc.uniqueArray(fc.tuple(key, value), { selector: ([name]) => name })), {
        selector: ([name]) => name,
      })
      .map((tables) =>
        tables.map(([name, rows]) => [name, ...rows.map(([k, v]) => `${k} = ${v}`)].join('\n')).join('\n'),
      );
    await fc.assert(
      fc.asyncProperty(source, async (text) => {
        const found = await faults(configOf(text));
        for (const fault of found) expect(fault).toMatch(/^gateway\.toml:\d+: [^ ]+: ./);
      }),
    );
  });
});
