import { generateKeyPairSync } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { configuredSecrets } from '../../src/cli/configured-secrets.ts';
import { resolveSecrets } from '../../src/config/secrets.ts';
import { base64Fragments } from '../../src/recorder/redaction/base64.ts';
import { Redactor } from '../../src/recorder/redaction/redactor.ts';
import type { ContentLevel } from '../../src/recorder/types.ts';
import { computeKeyId, rawPublicKey } from '../../src/signing/ed25519.ts';
import { privateKeyEncodings } from '../../src/signing/host-key.ts';
import { generateSecret, secretKinds } from '../../src/signing/secret.ts';
import { racks } from '../../src/tracing/index.ts';
import { anEvent, armed, eventsOf } from '../support/recorded.ts';
import { recorders } from '../support/recorders.ts';

// docs/recorder.md: the host's own secrets are taken out whatever the policy says.

const { privateKey, publicKey } = generateKeyPairSync('ed25519');
const key = { privateKey, publicKey, keyId: computeKeyId(rawPublicKey(publicKey)) };
const pem = privateKey.export({ type: 'pkcs8', format: 'pem' });
const keyLine = pem.split('\n')[1] ?? '';
/** 32 bytes, which are the secret of the key's 48. */
const seed = Buffer.from(privateKey.export({ format: 'jwk' }).d ?? '', 'base64url');

const minted = secretKinds.map(generateSecret);
/** What must not be found, also not in another encoding of the same bytes. */
const unwanted = [
  ...minted,
  ...minted.flatMap((secret) => base64Fragments(Buffer.from(secret))),
  keyLine,
  keyLine.slice(22),
  seed.toString('hex'),
  seed.toString('base64'),
  seed.toString('base64url'),
];

const escaped = (text: string) => Buffer.from(text).toString('hex').replaceAll(/../g, '\\u00$&');
const percent = (text: string) => Buffer.from(text).toString('hex').replaceAll(/../g, '%$&');
/** All secrets in all the spellings in which a text may have them. */
const secretTexts = [
  ...minted,
  ...minted.map((secret) => Buffer.from(secret).toString('base64')),
  ...minted.map((secret) => Buffer.from(`u:${secret}`).toString('base64')),
  ...minted.map((secret) => Buffer.from(`me:${secret} and more`).toString('base64url')),
  ...minted.map((secret) => `https://example.org/?token=${secret}&x=1`),
  ...minted.map(escaped),
  ...minted.map(percent),
  ...privateKeyEncodings(key),
  pem,
  JSON.stringify({ pem }),
];

/** Raw bytes of all files, the database's logs too. */
function foundIn(folder: string): string[] {
  const found: string[] = [];
  for (const name of readdirSync(folder)) {
    const bytes = readFileSync(join(folder, name));
    for (const text of unwanted)
      for (const written of [
        Buffer.from(text),
        Buffer.from(text, 'utf16le'),
        Buffer.from(text, 'utf16le').swap16(),
      ])
        if (bytes.includes(written)) found.push(`${name}: ${text}`);
  }
  return found;
}

describe("the host's own secrets are never stored", () => {
  const open = recorders();
  const policies: readonly (readonly string[])[] = [[], ['@credentials'], ['@emails'], ['ACME-[0-9]{6}']];

  it.each(policies.map((redact) => [JSON.stringify(redact), redact] as const))(
    'whatever the rest of the event is, with the policy %s',
    async (name, redact) => {
      const { recorder, folder, faults } = await open(`policy ${name}`, {
        secrets: privateKeyEncodings(key),
      });
      const contents: readonly ContentLevel[] = ['full', 'metadata', 'none'];
      for (const rack of racks)
        for (const content of contents) {
          const token = await armed(recorder, rack, { content, redact });
          const events = secretTexts.map((text, n) =>
            anEvent(`${content} ${n} ${text}`, {
              kind: text,
              subject: `about ${text}`,
              role: text,
              model: text,
              content: `before ${text} behind ${token}`,
              attributes: { [text]: text, deep: [{ of: text, authorization: text }], token },
            }),
          );
          await recorder.ingest(token, events, 'bearer');
          // Events that the planes record themselves, for which no caller waits.
          recorder.record(
            rack,
            secretTexts.map((text, n) => anEvent(`own ${content} ${n}`, { content: text, model: text })),
          );
        }
      expect(foundIn(folder)).toEqual([]);
      for (const rack of racks) {
        const { events } = await recorder.rack(rack);
        expect([rack, events]).toEqual([rack, expect.any(Number)]);
        expect(events).toBeGreaterThanOrEqual(secretTexts.length * contents.length);
      }
      await recorder.close();
      expect([faults, foundIn(folder)]).toEqual([[], []]);
    },
  );

  it('in texts that leave for a collector', async () => {
    const { recorder } = await open('telemetry', { secrets: privateKeyEncodings(key) });
    await recorder.change('agent', { armed: true, policy: { content: 'full', redact: [] } }, 'bearer');
    for (const text of secretTexts) {
      const clean = recorder.redact(text, 'agent');
      expect(unwanted.filter((secret) => clean.includes(secret))).toEqual([]);
    }
  });

  it('from when a secret is added, also in a history that is already open', async () => {
    const { recorder, folder } = await open('later');
    const token = await armed(recorder, 'agent', { content: 'full', redact: [] });
    await recorder.ingest(token, [anEvent('a', { content: 'some-key-of-a-provider' })], 'bearer');
    recorder.addSecret('some-key-of-a-provider');
    recorder.addSecret('some-key-of-a-provider');
    await recorder.ingest(token, [anEvent('b', { content: 'some-key-of-a-provider' })], 'bearer');
    expect((await eventsOf(recorder, 'agent')).map(({ content }) => content)).toEqual([
      'some-key-of-a-provider',
      '[redacted]',
    ]);
    expect(recorder.redact('some-key-of-a-provider', 'agent')).toBe('[redacted]');
    expect(readdirSync(folder)).toContain('agent.db');
  });
});

it('names of figures and other words that begin as a secret are no secrets', () => {
  for (const text of [
    'lathe_gateway_first_token_seconds_bucket 12',
    'lathe_session_ and lathe_write_ begin secrets',
    Buffer.from('lathe_gateway_first_token_seconds').toString('base64'),
  ])
    expect(new Redactor([], []).redact(text)).toEqual({ text, count: 0 });
});

it('what the host is configured with counts as its own: keys, headers, passwords', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'lathe-secrets-'));
  const file = (name: string, text: string) => {
    writeFileSync(join(folder, name), `${text}\n`);
    return join(folder, name);
  };
  const env = {
    PATH: '/usr/local/secret-looking/bin',
    TOOL_KEY: 'key-of-a-tool-server',
    CHILD_KEY: 'key-of-a-child-process',
    DEBUG: 'true',
    OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4318',
    OTEL_EXPORTER_OTLP_HEADERS: 'x-key=key-of-the-collector',
  };
  const secrets = await resolveSecrets(
    {
      bearer_token_file: file('bearer', 'bearer-of-a-file-0123'),
      gateway: { url: 'http://127.0.0.1:1', key_file: file('gateway', 'key-of-a-gateway-0123') },
      mcp: {
        far: {
          url: 'http://127.0.0.1:2',
          headers: { 'x-literal': 'key-in-the-settings' },
          header_env: { 'x-tool': 'TOOL_KEY' },
          header_files: { authorization: file('far', 'Bearer key-of-a-header-file') },
        },
        near: { command: ['true'], env_from: ['CHILD_KEY', 'PATH', 'DEBUG'] },
      },
    },
    env,
  );
  const master = Buffer.alloc(32, 7);
  const own = configuredSecrets({
    credentials: { bearerHash: undefined, operatorHash: undefined, tokens: ['operator-of-a-file-0123'] },
    key,
    secrets,
    gatewayConfig: {
      providers: [
        { id: 'p', wire: 'openai-chat', baseUrls: [], apiKey: 'key-of-a-provider', access: 'house' },
      ],
      models: [],
      aliases: new Map(),
      fallbacks: new Map(),
      byok: [],
      limits: {} as never,
      masterKeys: [{ id: 'mk_1', key: master }],
    },
    database: 'postgres://me:p%40ssword-of-it@db.example.org/lathe',
    collector: undefined,
    env,
  });
  expect(own).toEqual(
    expect.arrayContaining([
      'operator-of-a-file-0123',
      'bearer-of-a-file-0123',
      'key-of-a-gateway-0123',
      'key-in-the-settings',
      'key-of-a-tool-server',
      'key-of-a-header-file',
      'key-of-a-child-process',
      'key-of-a-provider',
      'key-of-the-collector',
      'p@ssword-of-it',
      master.toString('base64'),
      master.toString('hex'),
      keyLine,
      seed.toString('base64url'),
    ]),
  );
  // Else these words would be redacted in every text.
  for (const word of ['true', 'Bearer', env.PATH]) expect(own).not.toContain(word);
});
