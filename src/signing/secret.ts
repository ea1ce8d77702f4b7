import { createHash, hash as hashOf, randomBytes, timingSafeEqual } from 'node:crypto';

/** Name the secret wherever it turns up, so that scanners of sources and logs find it, and the recorder. */
export const secretKinds = ['bearer', 'operator', 'peer', 'session', 'external', 'gateway', 'write'] as const;
type SecretKind = (typeof secretKinds)[number];

/** 256 random bits as text: `lathe_<kind>_` and 43 characters. */
export const newSecret = (kind: SecretKind): string =>
  `lathe_${kind}_${randomBytes(32).toString('base64url')}`;

/** What is kept of a secret: hex of its SHA-256. */
export const secretHash = (secret: string): string => hashOf('sha256', secret);

/** Whether a secret is the one of a hash, in a time that tells nothing of either. */
export function secretFits(hash: string, given: string): boolean {
  const expected = Buffer.from(hash, 'hex');
  const got = createHash('sha256').update(given).digest();
  return expected.length === got.length && timingSafeEqual(expected, got);
}
