import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Redactor } from '../../src/recorder/redaction/redactor.ts';
import { redactionSets } from '../../src/recorder/redaction/sets.ts';

const credentials = new Redactor(['@credentials'], []);
const base64url = 'QWxhZGRpbjpvcGVuIHNlc2FtZQ-0123_abcXYZ';

/** Put together here, so that scanners of sources find none of them. */
const planted: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries({
    openai: ['sk-proj-', base64url],
    anthropic: ['sk-ant-api03-', base64url],
    stripe: ['sk_live_', '4eC39HqLyjWDarjtT1zdp7dc'],
    github: ['ghp_', '16C7e42F292c6912E7710c838347Ae178B4a'],
    githubFine: ['github_pat_', '11ABCDEFG0123456789_abcdefghij'],
    gitlab: ['glpat-', 'xyzABC1234567890_-ab'],
    slack: ['xoxb-', '123456789012-abcdefGHIJKL'],
    aws: ['AKIA', 'IOSFODNN7EXAMPLE'],
    google: ['AIza', 'SyDaGmWKa4JsXZ-HjGw7ISLn_3namBGewQe'],
    huggingFace: ['hf_', 'abcdefghijklmnopqrstuvwxyz0123'],
    npm: ['npm_', 'abcdefghijklmnopqrstuvwxyz0123456789'],
    own: ['lathe_bearer_', base64url],
    jwt: ['eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.', base64url],
    cutJwt: ['eyJhbGciOiJIUzI1NiJ9.', 'eyJzdWIiOiIxMjM0NTY3ODkwIn0'],
  }).map(([name, parts]) => [name, parts.join('')]),
);

describe('credentials', () => {
  it.each(Object.entries(planted))('%s is found wherever it stands', (_, secret) => {
    for (const [before, after] of [
      ['', ''],
      ['the key is ', ', keep it'],
      ['{"key":"', '"}'],
      ['https://example.org/?key=', '&x=1'],
      ['line\n', '\nline'],
      ['\\n', '\\n'],
    ] as const) {
      const { text, count } = credentials.redact(before + secret + after);
      expect(text).not.toContain(secret);
      expect(text).toContain('[redacted]');
      expect(text.startsWith(before.slice(0, 1))).toBe(true);
      expect(count).toBeGreaterThan(0);
    }
  });

  it('private keys are redacted completely, also truncated ones', () => {
    const key = `-----BEGIN RSA PRIVATE KEY-----\nMIIEow+abc/def\nghi=\n-----END RSA PRIVATE KEY-----`;
    expect(credentials.redact(`a ${key} b`)).toEqual({ text: 'a [redacted] b', count: 1 });
    expect(credentials.redact(`a ${key.slice(0, 50)}`)).toEqual({ text: 'a [redacted]', count: 1 });
    const quoted = JSON.stringify(key);
    expect(credentials.redact(quoted).text).toBe('"[redacted]"');
    const pgp = key.replaceAll('RSA PRIVATE KEY', 'PGP PRIVATE KEY BLOCK');
    expect(credentials.redact(pgp).text).toBe('[redacted]');
  });

  it.each([
    ['Authorization: Bearer abc.def-ghi_123', 'abc.def'],
    ['authorization: Basic QWxhZGRpbjpvcGVuc2VzYW1l', 'QWxh'],
    ['{"authorization":"Bearer zyx987654"}', 'zyx'],
    ['{\\"Authorization\\": \\"Bearer zyx987654\\"}', 'zyx'],
    ['bearer abcdefgh12', 'abcdefgh12'],
    ['postgres://me:hunter2@db.example.org/x', 'hunter2'],
    ['mongodb+srv://me:p%40ss@h', 'p%40ss'],
    ['redis://:onlypass@h:6379', 'onlypass'],
    ['amqp://u:p@ss/w0rd@h', 'w0rd'],
    ['password=hunter2', 'hunter2'],
    ['"password": "hunter2"', 'hunter2'],
    ["passwd => 'correct horse'", 'correct'],
    ['API_KEY=abc123def456', 'abc123'],
    ['apiKey: "abc123def456"', 'abc123'],
    ['OPENAI_API_KEY = abc123def456', 'abc123'],
    ['client_secret: s3cr3ts3cr3t', 's3cr3t'],
    ['access_token=1234567890abcdef', '1234567890'],
    ['AccountKey=abcd1234efgh5678==;', 'abcd1234'],
  ])('%s', (text, secret) => {
    expect(credentials.redact(text).text).not.toContain(secret);
  });

  it.each([
    'The task-management-subsystem-of-the-host is disk-intensive-sometimes.',
    'max_tokens: 4096, prompt_tokens=123456789',
    'const token: string;',
    'Bearing witness to basic configuration.',
    'https://example.org:8080/path?a=b and http://localhost:11434',
    'Say hello at 12:30, ok? See src/engine/tokenizer/index.ts.',
    'completion t12 of session x1700000000abc',
    '{"prompt_tokens":12,"total_ms":345.6}',
  ])('%s stays as it is', (text) => {
    expect(credentials.redact(text)).toEqual({ text, count: 0 });
  });

  it('attribute names identify secrets whatever the value looks like', () => {
    for (const name of ['password', 'Authorization', 'x-api-key', 'api_key', 'client_secret', 'set-cookie'])
      expect(credentials.isSecretName(name), name).toBe(true);
    for (const name of ['prompt_tokens', 'key', 'secretary', 'monkey', 'tool'])
      expect(credentials.isSecretName(name), name).toBe(false);
    expect(new Redactor([], []).isSecretName('password')).toBe(false);
  });

  it('e-mail addresses are a separate set', () => {
    const emails = new Redactor(['@emails'], []);
    expect(emails.redact('ask bob.o+x@mail.example.co.uk, jürgen@bücher.example or a@b').text).toBe(
      'ask [redacted], [redacted] or a@b',
    );
    expect(credentials.redact('bob@example.org').count).toBe(0);
  });
});

describe('the host’s own secrets', () => {
  const secret = 'p/q+"r s';
  const redactor = new Redactor([], [secret, 'abc']);
  it('are redacted plain, in URLs and in JSON, whatever the policy', () => {
    for (const spelling of [
      secret,
      encodeURIComponent(secret),
      JSON.stringify(secret).slice(1, -1),
      'p\\/q+\\"r s',
    ])
      expect(redactor.redact(`<${spelling}>`)).toEqual({ text: '<[redacted]>', count: 1 });
  });
  it('a text that is too short counts as a word', () => {
    expect(redactor.redact('abc abcd').count).toBe(0);
  });
});

describe('expressions of an operator', () => {
  it('are RE2; each match is redacted, overlapping matches as one', () => {
    const redactor = new Redactor(['\\d{4}', '(?i)project \\w+', '34x'], []);
    expect(redactor.redact('1234x PROJECT Moon 5678 56785678')).toEqual({
      text: '[redacted] [redacted] [redacted] [redacted][redacted]',
      count: 5,
    });
  });

  it('leave no matching text', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom('abc', 'bca', 'x', '12', ' ', 'ü', '\u{1F600}')), (parts) => {
        const { text, count } = new Redactor(['a', '[bc]{2}', '\\d', '\u{1F600}'], ['xüxx']).redact(
          parts.join(''),
        );
        const left = text.replaceAll('[redacted]', '\n');
        expect(left).not.toMatch(/a|[bc]{2}|\d|\u{1F600}|xüxx/u);
        expect(count).toBe(text.split('[redacted]').length - 1);
      }),
    );
  });
});

/** A pattern whose time grows with the square of the text would take minutes. */
it('hostile texts of 256 KiB take no more time than other texts', () => {
  const all = new Redactor([...Object.keys(redactionSets), '(x+x+)+y', '[a-z]+@[a-z]+'], []);
  for (const piece of [
    'a',
    'eyJ',
    'eyJaaaaaaaaaa.',
    '-',
    '-----BEGIN PRIVATE KEY-----',
    'a@',
    'a.',
    'a://',
    'a:',
    'password=',
    'secret:',
    'token: a',
    'bearer ',
    ' ',
    'sk-',
    'sk-a ',
    'SG.aaaaaaaaaaaaaaaaaaaa',
    '_token=\\\\\\\\',
    'authorization:',
    'xxxxxxxxxx',
    '@',
  ])
    expect(all.redact(piece.repeat((256 * 1024) / piece.length)).text).toBeTypeOf('string');
});
