import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, test } from 'vitest';
import { UsageError } from '../../src/config/options.ts';
import { resolveSecrets } from '../../src/config/secrets.ts';
import { parseSettings } from '../../src/config/toml.ts';

const toml = (source: string) => parseSettings(source, 'host.toml', '/etc/lathe');

/** Faults of a refused start; empty when the start succeeds. */
async function faults(run: () => unknown): Promise<readonly string[]> {
  try {
    await run();
  } catch (error) {
    if (error instanceof UsageError) return error.faults;
    throw error;
  }
  return [];
}

const hash = `sha256:${'0a'.repeat(32)}`;

describe('the tables of the file', () => {
  test('servers by command and by URL, with paths relative to the file', () => {
    const source = `port = 1
[mcp.files]
command = ["./bin/files", "--root", "data"]
env = { LOG = "debug" }
env_from = ["TOKEN"]
cwd = "work"
timeout_secs = 2.5
[mcp.files.pins]
read = "${hash}"
"odd name" = "${hash}"
[mcp.search]
url = "https://search.example/mcp"
headers = { X-Team = "a" }
header_env.Authorization = "SEARCH_AUTH"
header_files.X-Key = "keys/search"
enabled = false
[mcp.plain]
command = ["server"]
[gateway]
url = "http://127.0.0.1:9000/v1"
key_file = "gateway.key"
models = ["big"]
timeout_secs = 30
`;
    expect(toml(source)).toEqual({
      port: 1,
      mcp: {
        files: {
          command: ['/etc/lathe/bin/files', '--root', 'data'],
          env: { LOG: 'debug' },
          env_from: ['TOKEN'],
          cwd: '/etc/lathe/work',
          timeout_secs: 2.5,
          pins: { read: hash, 'odd name': hash },
        },
        search: {
          url: 'https://search.example/mcp',
          headers: { 'X-Team': 'a' },
          header_env: { Authorization: 'SEARCH_AUTH' },
          header_files: { 'X-Key': '/etc/lathe/keys/search' },
          enabled: false,
        },
        plain: { command: ['server'], cwd: '/etc/lathe' },
      },
      gateway: {
        url: 'http://127.0.0.1:9000/v1',
        key_file: '/etc/lathe/gateway.key',
        models: ['big'],
        timeout_secs: 30,
      },
    });
  });

  test('all faults are reported at once, each with its line, and similar names are suggested', async () => {
    const source = `prot = 1
[mcp.files]
comand = ["x"]
timeout_secs = 0

[mcp."9 lives"]
command = [
  "x",
  5,
]
env = { "A-B" = "1" }
cwd = 3

[mcp.both]
command = ["x"]
url = "https://h/mcp"

[mcp.far]
url = "ftp://h"
cwd = "here"
headers = { "a b" = "c" }

[mcp.pinned]
command = []
pins = { read = "sha256:12" }
[gateway]
key_env = "K"
key_file = "k"
wire = "openai"
`;
    expect(await faults(() => toml(source))).toEqual([
      'host.toml:1: prot: unknown key (did you mean port?)',
      'host.toml:2: mcp.files: needs command = ["program", "argument"] or url = "https://..."',
      'host.toml:3: mcp.files.comand: unknown key (did you mean command?)',
      'host.toml:4: mcp.files.timeout_secs: expected seconds from 1 to 3600, got 0',
      'host.toml:6: mcp."9 lives": expected a name of a letter and up to 31 letters, digits and dashes',
      'host.toml:9: mcp."9 lives".command[1]: expected a text, got 5',
      'host.toml:11: mcp."9 lives".env.A-B: expected the name of an environment variable: letters, digits and _',
      'host.toml:12: mcp."9 lives".cwd: expected a text, got 3',
      'host.toml:16: mcp.both.url: command is set too; keep one of command and url',
      'host.toml:19: mcp.far.url: expected an http:// or https:// URL',
      'host.toml:20: mcp.far.cwd: belongs to a server with command',
      'host.toml:21: mcp.far.headers."a b": expected the name of an HTTP header',
      'host.toml:24: mcp.pinned.command: expected a list: the program and its arguments, got []',
      'host.toml:25: mcp.pinned.pins.read: expected sha256: and 64 hex digits, as `mcp pins NAME` prints them, got "sha256:12"',
      'host.toml:26: gateway.url: is missing; expected an http:// or https:// URL',
      'host.toml:28: gateway.key_file: key_env is set too; keep one of key_env and key_file',
      'host.toml:29: gateway.wire: expected one of openai-chat, openai-responses, anthropic-messages, google, got "openai"',
    ]);
  });

  test.each([
    ['mcp = 1', 'host.toml:1: mcp: expected tables [mcp.NAME], got 1'],
    ['[mcp]\nx = 1', 'host.toml:2: mcp.x: expected a table [mcp.NAME], got 1'],
    [
      '[[mcp.x]]\ncommand = ["a"]',
      'host.toml:1: mcp.x: expected a table [mcp.NAME], got [{"command":["a"]}]',
    ],
    ['gateway = []', 'host.toml:1: gateway: expected a table [gateway], got []'],
    ['[gatway]\nurl = "x"', 'host.toml:1: gatway: unknown key (did you mean gateway?)'],
  ])('%j is refused', async (source, fault) => {
    expect(await faults(() => toml(source))).toEqual([fault]);
  });

  test('no message repeats a possible secret', async () => {
    const source = `[mcp.a]
url = "https://me:hunter2@h/mcp"
headers = { Authorization = "hunter2\\n" }
[mcp.b]
command = ["x"]
env = { KEY = ["hunter2"] }
[gateway]
url = "https://:hunter2@h"
`;
    const found = await faults(() => toml(source));
    expect(found).toHaveLength(4);
    expect(found.join('\n')).not.toContain('hunter2');
  });

  test('invalid tables throw only a usage error, with its line', async () => {
    const name = fc.oneof(
      fc.constantFrom(
        'command',
        'url',
        'env',
        'pins',
        'headers',
        'cwd',
        'enabled',
        '__proto__',
        'constructor',
      ),
      fc.string({ maxLength: 5 }),
    );
    const value: fc.Arbitrary<string> = fc.letrec<{ value: string }>((tie) => ({
      value: fc.oneof(
        { maxDepth: 3 },
        fc.constantFrom('1', '-0.5', 'nan', 'true', '1979-05-27', '"x"', '9223372036854775807'),
        fc.string().map((text) => JSON.stringify(text)),
        fc.array(tie('value'), { maxLength: 3 }).map((parts) => `[${parts.join(',\n')}]`),
        fc
          .uniqueArray(fc.tuple(name, tie('value')), { maxLength: 3, selector: ([key]) => key })
          .map((parts) => `{${parts.map(([key, part]) => `${JSON.stringify(key)} = ${part}`).join(', ')}}`),
      ),
    })).value;
    const table = fc
      .tuple(
        fc.constantFrom('mcp', 'mcp.a', 'mcp.a.pins', 'mcp.__proto__', 'gateway', '[mcp.a]', '__proto__'),
        fc.uniqueArray(fc.tuple(name, value), { maxLength: 4, selector: ([key]) => key }),
      )
      .map(([head, parts]) =>
        [`[${head}]`, ...parts.map(([key, part]) => `${JSON.stringify(key)} = ${part}`)].join('\n'),
      );
    let valid = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(table, { minLength: 1, maxLength: 3 }), async (tables) => {
        const found = await faults(() => toml(tables.join('\n')));
        for (const fault of found) expect(fault).toMatch(/^host\.toml:\d+/);
        if (!found.some((fault) => fault.includes('not valid TOML'))) valid++;
      }),
      { numRuns: 500 },
    );
    expect(valid).toBeGreaterThan(50);
  });
});

describe('webhooks', () => {
  const key = Buffer.alloc(32, 1).toString('base64');
  const secret = `whsec_${key}`;

  test('with secrets inline, in variables and in files, and headers', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'lathe-webhooks-'));
    await writeFile(join(folder, 'hook.secret'), `${secret}\n`);
    const source = `[[agent.webhooks]]
url = "https://a.example/hook?x=1"
secret = "${secret}"
types = ["pending", "task.completed"]
headers = { X-Team = "blue-team" }
[[agent.webhooks]]
url = "http://localhost:9000/hook"
secret_env = "HOOK"
header_env = { Authorization = "HOOK_AUTH" }
[[agent.webhooks]]
url = "http://[::1]/hook"
secret_file = "hook.secret"
[[agent.webhooks]]
url = "http://far.example/hook"
secret_env = "HOOK"
allow_http = true
`;
    const settings = parseSettings(source, 'host.toml', folder);
    const resolved = await resolveSecrets(settings, { HOOK: secret, HOOK_AUTH: 'Bearer zz' });
    expect(resolved.webhooks).toEqual([
      {
        url: 'https://a.example/hook?x=1',
        secret,
        types: ['pending', 'task.completed'],
        headers: { 'X-Team': 'blue-team' },
      },
      { url: 'http://localhost:9000/hook', secret, headers: { Authorization: 'Bearer zz' } },
      { url: 'http://[::1]/hook', secret, headers: {} },
      { url: 'http://far.example/hook', secret, headers: {} },
    ]);
    for (const text of [secret, key, 'blue-team', 'Bearer zz'])
      expect(resolved.redactedTexts).toContain(text);
    await rm(folder, { recursive: true });
    expect(await faults(() => resolveSecrets(settings, { HOOK: 'whsec_hunter2', HOOK_AUTH: 'x' }))).toEqual([
      expect.stringMatching(
        /^agent\.webhooks\[1\]: its secret is invalid: expected whsec_ and 24 to 64 bytes/,
      ),
      expect.stringMatching(/^agent\.webhooks\[2\]\.secret_file .*hook\.secret: there is no such file/),
      expect.stringMatching(/^agent\.webhooks\[3\]: its secret is invalid/),
    ]);
  });

  test('faults name their line, and repeat no secret', async () => {
    const source = `[agent]
webhook = 1
[[agent.webhooks]]
url = "http://far.example/hook"
secret = "whsec_hunter2"
[[agent.webhooks]]
url = "https://user:hunter2@a.example/"
[[agent.webhooks]]
url = "https://a.example/hook"
secret_env = "A"
secret_file = "b"
types = ["tasks"]
headers = { Webhook-Id = "1" }
retries = 3
[[agent.webhooks]]
url = "https://a.example/hook"
secret_env = "A"
`;
    const found = await faults(() => toml(source));
    expect(found).toEqual([
      'host.toml:2: agent.webhook: unknown key (did you mean webhooks?)',
      'host.toml:4: agent.webhooks[0].url: expected https:// beyond this machine; allow_http = true sends the events unencrypted',
      expect.stringMatching(
        /^host\.toml:5: agent\.webhooks\[0\]\.secret: expected whsec_ and 24 to 64 bytes/,
      ),
      'host.toml:6: agent.webhooks[1]: needs a secret: secret_env = "VARIABLE", secret_file or secret',
      'host.toml:7: agent.webhooks[1].url: must not hold a user or password; name a file or a variable that holds the secret',
      'host.toml:11: agent.webhooks[2].secret_file: secret_env is set too; keep one of the two',
      expect.stringMatching(
        /^host\.toml:12: agent\.webhooks\[2\]\.types\[0\]: expected one of task, run, pending, .*, got "tasks"/,
      ),
      'host.toml:13: agent.webhooks[2].headers.Webhook-Id: the host sets this header itself',
      'host.toml:14: agent.webhooks[2].retries: unknown key',
      'host.toml:16: agent.webhooks[3].url: another table has the same URL',
    ]);
    expect(found.join()).not.toContain('hunter2');
    expect(await faults(() => toml('agent = 3'))).toEqual([
      'host.toml:1: agent: expected tables [[agent.webhooks]]',
    ]);
  });
});

describe('secrets', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'lathe-secrets-'));
  afterAll(() => rm(folder, { recursive: true }));
  const file = async (name: string, text: string) => {
    await writeFile(join(folder, name), text);
    return join(folder, name);
  };

  test('are read from files and variables, trimmed', async () => {
    const settings = {
      bearer_token_file: await file('bearer', 'b-token\n'),
      gateway: {
        url: 'http://h/v1',
        wire: 'google' as const,
        key_file: await file('key', '  k-1 \n'),
        timeout_secs: 2,
      },
      mcp: {
        a: { command: ['x', 'y'], env: { A: '1' }, env_from: ['PEM'], cwd: '/w', pins: { t: hash } },
        b: {
          url: 'http://h/mcp',
          headers: { X: '1' },
          header_env: { Authorization: 'AUTH' },
          timeout_secs: 5,
        },
        c: { command: ['never'], env_from: ['ABSENT'], enabled: false },
      },
    };
    expect(
      await resolveSecrets(settings, { PEM: 'one\ntwo', AUTH: 'Bearer z\n', OTHER: 'no', PATH: '/bin' }),
    ).toEqual({
      bearerToken: 'b-token',
      gateway: { url: 'http://h/v1', wire: 'google', key: 'k-1', timeoutMs: 2000 },
      mcp: [
        {
          name: 'a',
          timeoutMs: 60_000,
          pins: new Map([['t', hash]]),
          transport: {
            kind: 'stdio',
            program: 'x',
            args: ['y'],
            inherited: { PATH: '/bin' },
            env: { A: '1', PEM: 'one\ntwo' },
            cwd: '/w',
          },
        },
        {
          name: 'b',
          timeoutMs: 5000,
          pins: new Map(),
          transport: { kind: 'http', url: 'http://h/mcp', headers: { X: '1', Authorization: 'Bearer z' } },
        },
      ],
      webhooks: [],
      redactedTexts: ['b-token', 'k-1', 'one\ntwo', 'Bearer z', '1', 'Bearer z'],
    });
    expect(await resolveSecrets({}, {})).toEqual({ mcp: [], webhooks: [], redactedTexts: [] });
  });

  test('missing, empty and multi-line secrets are reported at once, with advice, and not repeated', async () => {
    const empty = await file('empty', ' \n');
    const lines = await file('lines', 'hunter2\nhunter3\n');
    const settings = {
      bearer_token_file: join(folder, 'absent'),
      gateway: { url: 'http://h/v1', key_env: 'GATEWAY_KEY' },
      mcp: {
        a: { command: ['x'], env_from: ['ONE', 'TWO'] },
        b: {
          url: 'http://h/mcp',
          header_files: { K: empty, L: lines, M: folder },
          header_env: { N: 'LINES' },
        },
      },
    };
    const found = await faults(() => resolveSecrets(settings, { TWO: '', LINES: 'hunter2\nhunter3' }));
    expect(found).toEqual([
      `--bearer-token-file ${folder}/absent: there is no such file; write the secret into it, or correct the path`,
      'gateway.key_env: the environment variable GATEWAY_KEY is not set; set it before the host is started',
      'mcp.a.env_from: the environment variable ONE is not set; set it before the host is started',
      'mcp.a.env_from: the environment variable TWO is empty; set it before the host is started',
      'mcp.b.header_env.N: the environment variable LINES: must hold one line of plain characters and nothing else',
      `mcp.b.header_files.K ${empty}: is empty; write the secret into it`,
      `mcp.b.header_files.L ${lines}: must hold one line of plain characters and nothing else`,
      `mcp.b.header_files.M ${folder}: it is a directory; name the file in it`,
    ]);
  });
});
