import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createRedactor } from '../../src/gateway/access/redact.ts';
import { generateSecret } from '../../src/signing/secret.ts';

const keyText = (min: number, max: number) =>
  fc
    .array(
      fc.constantFrom(...'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~/+='.split('')),
      {
        minLength: min,
        maxLength: max,
      },
    )
    .map((characters) => characters.join(''));
const provider = 'sk-proj-4fJ29aKQx0LmZ81TyBv7WnQpR3uXcD5e';

describe('secrets are redacted', () => {
  it('anywhere in a text', () => {
    fc.assert(
      fc.property(keyText(8, 80), fc.string(), fc.string(), fc.string(), (secret, before, between, after) => {
        const safe = createRedactor(secret)(before + secret + between + secret + after);
        expect(safe).not.toContain(secret);
        for (let at = 0; at + 8 <= secret.length; at++)
          expect(
            safe.includes(secret.slice(at, at + 8)) && !'[redacted]'.includes(secret.slice(at, at + 8)),
          ).toBe(false);
      }),
    );
  });

  it('but not texts that share only the public prefix of a secret', () => {
    const key = generateSecret('gateway');
    const start = key.slice(0, 'lathe_gateway_'.length);
    const safe = createRedactor(`${start}stop${key.slice(18)}`);
    for (const code of ['gateway_stopping', 'a lathe_gateway_sto', 'lathe_gateway_']) {
      // A piece has at least four secret characters; `gateway_stop` has them.
      const redact = code === 'gateway_stopping' ? createRedactor(`${start}stoX${key.slice(18)}`) : safe;
      expect(redact(code)).toBe(code);
    }
    expect(safe(`${start}stop`)).not.toContain('stop');
  });

  it('in any piece of eight characters or more', () => {
    fc.assert(
      fc.property(keyText(20, 60), fc.nat(), fc.nat(), (secret, a, b) => {
        const from = a % (secret.length - 8);
        const piece = secret.slice(from, from + 8 + (b % (secret.length - from - 7)));
        expect(createRedactor(secret)(`it was ${piece}!`)).toBe('it was [redacted]!');
      }),
    );
  });

  it.each([
    ['sk-...XcD5e', '[redacted]'],
    ['sk-...cD5e', '[redacted]'],
    ['sk-proj-********************************D5e', '[redacted]'],
    ['sk-proj-4fJ2…cD5e', '[redacted]'],
    ['****XcD5e', '[redacted]'],
    ['••••••cD5e', '[redacted]'],
    ['sk-proj-4fxxxxxxxxcD5e', '[redacted]'],
    ['sk-p<hidden>cD5e', '[redacted]'],
    ['sk-proj-4f[masked]', '[redacted]'],
    ['"sk-p****"', '"[redacted]"'],
  ])('masked as %s', (masked, left) => {
    const errorText = (key: string) =>
      `Incorrect API key provided: ${key}. You can find your key at https://x.test.`;
    expect(createRedactor(provider)(errorText(masked))).toBe(errorText(left));
  });

  it('masked in any way that shows at least four characters of the ends', () => {
    fc.assert(
      fc.property(
        keyText(20, 60),
        fc.nat(12),
        fc.nat(12),
        fc.constantFrom('...', '…', '***', '••••', 'xxxx', '*'.repeat(30)),
        (secret, before, after, mask) => {
          fc.pre(before + after >= 4 && !/[.*x•…]/i.test(secret.slice(0, 13) + secret.slice(-13)));
          const masked = secret.slice(0, before) + mask + (after === 0 ? '' : secret.slice(-after));
          expect(createRedactor(secret)(`key ${masked} is wrong`)).toBe('key [redacted] is wrong');
        },
      ),
    );
  });

  it('encoded for URLs and for JSON', () => {
    const secret = 'ab/c+d"e\\f=g h1';
    const redact = createRedactor(secret);
    for (const text of [
      encodeURIComponent(secret),
      JSON.stringify(secret),
      JSON.stringify(secret).replaceAll('/', '\\/'),
    ]) {
      const safe = redact(`at ?key=${text}&x`);
      for (const part of ['ab%2Fc', 'b/c+d', 'e\\\\f', 'f%3Dg']) expect(safe).not.toContain(part);
      expect(safe).toMatch(/^at \?key="?\[redacted\]"?&x$/);
    }
  });

  it('all secrets of a request', () => {
    const caller = generateSecret('gateway');
    const redact = createRedactor(caller, undefined, provider, '');
    expect(redact(`${caller} asked with ${provider}`)).toBe('[redacted] asked with [redacted]');
    expect(redact(`${caller}${provider}`)).toBe('[redacted]');
  });
});

describe('other text is unchanged', () => {
  it('any text without a secret', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 200 }), (text) => {
        expect(createRedactor(generateSecret('gateway'), provider)(text)).toBe(text);
      }),
    );
  });

  it.each([
    'relation "gateway_keys" does not exist: lathe_gateway_ is how keys begin',
    'keys begin with sk-proj- or sk-ant-api03-',
    'wait... there are 3 dots, **bold** and xxxx',
    'a table of 12 rows ---- and more',
  ])('%s', (text) => {
    expect(
      createRedactor(generateSecret('gateway'), provider, `sk-ant-api03-${'Zq1'.repeat(20)}`)(text),
    ).toBe(text);
  });

  it('when the key is too short to count as a secret', () => {
    expect(createRedactor('a', 'no')('a note: no answer')).toBe('a note: no answer');
    expect(createRedactor('s3cr')('it is s3cr and s3c')).toBe('it is [redacted] and s3c');
  });

  it('in a large text full of masks, except for the secret', () => {
    const text = `${'x*'.repeat(100_000)}${provider}${'....'.repeat(50_000)}`;
    expect(createRedactor(provider)(text) === text.replace(provider, '[redacted]')).toBe(true);
  });
});
