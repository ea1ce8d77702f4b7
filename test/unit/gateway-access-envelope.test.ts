import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type Envelope,
  EnvelopeError,
  type MasterKeys,
  rewrapDataKey,
  encryptSecret,
  decryptSecret,
} from '../../src/gateway/access/envelope.ts';

const master = (id: string) => ({ id, key: randomBytes(32) });
const [first, second] = [master('mk_1'), master('mk_2')];
const belonging = ['a_1', 'openai', 'c_1', null];
const sealed = (secret = 'sk-secret', masters: MasterKeys = [first]) =>
  encryptSecret(masters, belonging, secret);
const faultOf = (work: () => unknown): string => {
  try {
    work();
  } catch (error) {
    expect(error).toBeInstanceOf(EnvelopeError);
    return (error as Error).message;
  }
  return 'it opened';
};

describe('an encrypted secret', () => {
  it('decrypts to the same text, for any text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 300 }), fc.array(fc.string()), (secret, owner) => {
        const envelope = encryptSecret([first], owner, secret);
        expect(decryptSecret([second, first], owner, envelope)).toBe(secret);
      }),
    );
  });

  it('differs each time, and reveals only its length', () => {
    const envelopes = Array.from({ length: 50 }, () => sealed('sk-secret'));
    for (const name of ['wrapped_key', 'iv', 'tag', 'ciphertext'] as const)
      expect(new Set(envelopes.map((one) => one[name])).size).toBe(50);
    for (const { iv, tag, ciphertext, wrapped_key: wrapped } of envelopes) {
      const lengths = [iv, tag, ciphertext, wrapped].map((text) => Buffer.from(text, 'base64').length);
      expect(lengths).toEqual([12, 16, 'sk-secret'.length, 60]);
    }
  });

  it('does not decrypt when any bit was changed', () => {
    fc.assert(
      fc.property(
        fc.constantFrom('wrapped_key', 'iv', 'tag', 'ciphertext' as const),
        fc.nat(),
        fc.nat(7),
        (column, at, bit) => {
          const envelope = sealed('sk-a-secret-of-some-length');
          const bytes = Buffer.from(envelope[column], 'base64');
          const index = at % bytes.length;
          bytes.writeUInt8(bytes.readUInt8(index) ^ (1 << bit), index);
          const changed = { ...envelope, [column]: bytes.toString('base64') };
          expect(faultOf(() => decryptSecret([first], belonging, changed))).toMatch(/was changed/);
          expect(faultOf(() => rewrapDataKey([second, first], belonging, changed))).toMatch(/was changed/);
        },
      ),
    );
  });

  it('nor when a part is missing, longer, encoded differently, or from another envelope', () => {
    const [envelope, other] = [sealed(), sealed()];
    for (const column of ['wrapped_key', 'iv', 'tag', 'ciphertext'] as const) {
      const text = envelope[column];
      const cut = Buffer.from(text, 'base64').subarray(0, -4).toString('base64');
      const longer = Buffer.concat([Buffer.from(text, 'base64'), Buffer.alloc(1)]).toString('base64');
      for (const value of ['', cut, longer, `${text}\n`, ` ${text}`, '!', other[column]]) {
        const changed: Envelope = { ...envelope, [column]: value };
        expect(faultOf(() => decryptSecret([first], belonging, changed))).toMatch(/was changed/);
      }
    }
  });

  it('nor with other associated data', () => {
    const envelope = sealed();
    for (const others of [
      ['a_2', 'openai', 'c_1', null],
      ['a_1', 'anthropic', 'c_1', null],
      ['a_1', 'openai', 'c_2', null],
      ['a_1', 'openai', 'c_1', 'https://evil.test'],
      ['a_1', 'openai', 'c_1', 'null'],
      ['a_1', 'openai', 'c_1'],
      ['a_1', 'openai,c_1', null],
      ['a_1openai', 'c_1', null],
      [],
    ])
      expect(faultOf(() => decryptSecret([first], others, envelope))).toMatch(/was changed/);
  });

  it('nor with another key of that id, without its key, or with another algorithm; the error says which', () => {
    const envelope = sealed('sk-secret');
    const faults = [
      faultOf(() => decryptSecret([{ ...second, id: 'mk_1' }], belonging, envelope)),
      faultOf(() => decryptSecret([second, { ...first, id: 'mk_3' }], belonging, envelope)),
      faultOf(() => decryptSecret([], belonging, envelope)),
      faultOf(() => decryptSecret([first, second], belonging, { ...envelope, kek_id: 'mk_2' })),
      faultOf(() => decryptSecret([{ ...first, id: 'mk_2' }], belonging, { ...envelope, kek_id: 'mk_2' })),
      faultOf(() => decryptSecret([first], belonging, { ...envelope, alg: 'none' as 'A256GCM' })),
    ];
    expect(faults).toEqual([
      "the master key 'mk_1' does not decrypt it: it is another key of that name, or the record was changed",
      "it was encrypted with the master key 'mk_1', which is not configured (there are: 'mk_2', 'mk_3')",
      "it was encrypted with the master key 'mk_1', which is not configured (there is none)",
      "the master key 'mk_2' does not decrypt it: it is another key of that name, or the record was changed",
      "the master key 'mk_2' does not decrypt it: it is another key of that name, or the record was changed",
      "its algorithm 'none' is not A256GCM",
    ]);
    expect(faults.join()).not.toContain('sk-secret');
  });

  it('cannot be made without a master key', () => {
    expect(faultOf(() => sealed('sk-secret', []))).toBe('there is no master key to encrypt it with');
  });
});

describe('rewrapping', () => {
  it('re-encrypts the data key with the first master key and leaves the ciphertext unchanged', () => {
    const envelope = sealed();
    const as = rewrapDataKey([second, first], belonging, envelope);
    expect(as).toMatchObject({ kek_id: 'mk_2' });
    const moved = { ...envelope, ...as };
    expect(decryptSecret([second], belonging, moved)).toBe('sk-secret');
    expect(faultOf(() => decryptSecret([first], belonging, moved))).toMatch(/not configured/);
    expect(rewrapDataKey([second, first], belonging, moved)).toBeUndefined();
  });
});
