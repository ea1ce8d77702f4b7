import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { racks } from '../../src/tracing/index.ts';
import { type FakeProvider, fakeProvider } from '../support/gateway/provider.ts';
import { freshDataDir, gatewayProgram } from '../support/host.ts';
import { event, startWatchedHost, tokenFor, type WatchedHost } from '../support/watched-host.ts';

// docs/recorder.md: the host's own secrets are taken out before anything is stored, whatever the policy says. Here on a
// whole host: secrets of every kind as it really mints and keeps them, by every way into the recorder.

const providersKey = `sk-far-${randomBytes(24).toString('base64url')}`;
const callersKey = `sk-own-${randomBytes(24).toString('base64url')}`;
const masterKey = randomBytes(32).toString('base64');
const dataDir = freshDataDir();
let at: WatchedHost;
let provider: FakeProvider;
let gatewayKey = '';
let writeToken: Record<string, string> = {};
let secrets: string[] = [];

/** The gateway's command line beside the host, on the host's own database. */
const gateway = (...words: string[]) =>
  JSON.parse(
    execFileSync(process.execPath, [gatewayProgram, ...words, '--json'], {
      encoding: 'utf8',
      env: { ...process.env, LATHE_DATA_DIR: dataDir },
      cwd: dataDir,
    }),
  ) as Record<string, unknown>;

beforeAll(async () => {
  provider = await fakeProvider([{ say: { text: 'From afar.', usage: { input: 10, output: 5 } } }]);
  const folder = mkdtempSync(join(tmpdir(), 'lathe-config-'));
  const config = join(folder, 'gateway.toml');
  writeFileSync(join(folder, 'far.key'), providersKey);
  writeFileSync(join(folder, 'master.key'), masterKey);
  const table = (id: string, access: string) => `[[providers]]
id = "${id}"
wire = "openai-chat"
base_url = "${provider.baseUrl('openai-chat')}"
${access}
[[models]]
id = "of-${id}"
provider = "${id}"
family = "openai"
caps = ["chat"]
context_window = 100_000
max_output_tokens = 1000
in_usd_per_mtok = "1"
out_usd_per_mtok = "1"
`;
  writeFileSync(
    config,
    `${table('far', 'api_key_file = "far.key"')}${table('theirs', 'access = "byok"')}[byok.theirs]
[secrets]
master_key_file = "master.key"
`,
  );
  const flags = ['--gateway-config', config];
  at = await startWatchedHost({ dataDir, flags, script: { says: ['Well ', 'said.'] } });
  gateway('account', 'create', 'house', '--credit-usd', '1');
  gatewayKey = String(gateway('key', 'create', '--account', 'house')['key']);
  const stored = await fetch(`${at.url}/gateway/v1/keys/theirs`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${gatewayKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ api_key: callersKey }),
  });
  expect([stored.status, await stored.text()]).toEqual([200, expect.any(String)]);
  const peer = await at.peer('ann');
  const session = await at.post<{ secret: string }>('/agent/v1/sessions', { harness: 'make' });
  const task = await at.post('/agent/v1/tasks', { prompt: 'Say something.' });
  const tokens = await Promise.all(racks.map(async (rack) => [rack, await tokenFor(dataDir, rack)] as const));
  writeToken = Object.fromEntries(tokens.map(([rack, { token }]) => [rack, token]));
  const kept = (name: string) => readFileSync(join(dataDir, name), 'utf8').trim();
  const pem = kept('host.key');
  secrets = [
    kept('bearer.token'),
    kept('operator.token'),
    pem,
    pem.split('\n')[1] ?? '',
    peer.headers.authorization.slice('Bearer '.length),
    session.json.secret,
    task.headers.get('x-svc-session-secret') ?? '',
    ...Object.values(writeToken),
    gatewayKey,
    providersKey,
    callersKey,
    masterKey,
  ];
  expect(secrets.every((secret) => secret.length >= 16)).toBe(true);
});
afterAll(async () => {
  await at?.end();
  await provider?.close();
});

/** In the bytes of any file of the recorder, logs of databases too. */
function found(): string[] {
  const folder = join(dataDir, 'recorder');
  return readdirSync(folder).flatMap((name) => {
    const bytes = readFileSync(join(folder, name));
    return secrets
      .filter((secret) =>
        [
          Buffer.from(secret),
          Buffer.from(secret, 'utf16le'),
          Buffer.from(secret, 'utf16le').swap16(),
          Buffer.from(Buffer.from(secret).toString('base64')),
        ].some((written) => bytes.includes(written)),
      )
      .map((secret) => `${name}: ${secret}`);
  });
}

const eventCounts = async () => {
  const { json } = await at.send('GET', '/recorder/v1/racks');
  const all = json['data'] as { id: string; events: number }[];
  return Object.fromEntries(all.map(({ id, events }) => [id, events]));
};

it('no secret of the host gets into a file of the recorder or onto its surface, whatever the policy', async () => {
  let n = 0;
  for (const redact of [[], ['@emails'], ['@credentials']])
    for (const content of ['full', 'metadata', 'none']) {
      for (const rack of racks) await at.putRack(rack, { armed: true, policy: { content, redact } });
      const before = await eventCounts();
      const prompt = `Say this again: ${secrets.join(' ')} ${JSON.stringify(secrets)} ${secrets
        .map((secret) => Buffer.from(`:${secret}`).toString('base64'))
        .join(' ')}`;
      const messages = [{ role: 'user', content: prompt }];
      const post = async (path: string, body: object, headers: Record<string, string> = {}) => {
        const response = await fetch(at.url + path, {
          method: 'POST',
          headers: { 'content-type': 'application/json', ...headers },
          body: JSON.stringify(body),
        });
        expect([path, response.status, await response.text()]).toEqual([path, 200, expect.any(String)]);
      };
      for (const stream of [false, true])
        await post('/v1/chat/completions', { model: 'scripted', messages, stream });
      await post('/agent/v1/tasks', { prompt: prompt });
      for (const model of ['of-far', 'of-theirs'])
        await post(
          '/gateway/v1/chat/completions',
          { model, messages, max_tokens: 10 },
          { authorization: `Bearer ${gatewayKey}` },
        );
      for (const rack of racks) {
        const sent = await at.ingest(
          writeToken[rack] ?? '',
          secrets.map((secret) =>
            event(`${n++} ${secret}`, {
              subject: secret.slice(0, 200),
              content: prompt,
              attributes: { [secret]: secret },
            }),
          ),
        );
        expect([rack, sent.status]).toEqual([rack, 200]);
      }
      await at.wait('all of it is kept', async () => {
        const now = await eventCounts();
        const more = (rack: string) => (now[rack] ?? 0) - (before[rack] ?? 0) - secrets.length;
        return more('completions') > 0 && more('agent') > 0 && more('gateway') > 0;
      });
      expect([redact, content, found()]).toEqual([redact, content, []]);
    }
  for (const rack of racks) {
    const { status, text } = await at.query({
      surface: 'transcript',
      select: ['event_id', 'subject', 'content', 'attributes'],
      where: [{ column: 'rack', op: 'eq', value: rack }],
      limit: 1000,
    });
    const shown = secrets.filter((secret) => text.includes(JSON.stringify(secret).slice(1, -1)));
    const isKept = text.includes('Say this again: [redacted]');
    expect([rack, status, shown, isKept]).toEqual([rack, 200, [], true]);
  }
});
