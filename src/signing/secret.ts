import { createHash, hash as hashOf, randomBytes, timingSafeEqual } from 'node:crypto';

/** Kinds of secrets. The kind is part of the prefix, by which secret scanners and the recorder recognize a secret. */
export const secretKinds = ['bearer', 'operator', 'peer', 'session', 'external', 'gateway', 'write'] as const;
type SecretKind = (typeof secretKinds)[number];

/** A new secret of 256 random bits: `lathe_<kind>_` and 43 characters. */
export const generateSecret = (kind: SecretKind): string =>
  `lathe_${kind}_${randomBytes(32).toString('base64url')}`;

/** The stored form of a secret: its SHA-256 in hex. */
export const hashSecret = (secret: string): string => hashOf('sha256', secret);

/** Compares a secret with a stored hash in constant time. */
export function verifySecret(hash: string, secret: string): boolean {
  const expected = Buffer.from(hash, 'hex');
  const actual = createHash('sha256').update(secret).digest();
  return expected.length === actual.length && timingSafeEqual(expected, actual);
}
