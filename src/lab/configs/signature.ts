import { createHash, createPublicKey, type KeyObject, sign, verify } from 'node:crypto';
import type { ConfigEnvelope } from '../types.ts';
import { canonicalJson } from './canonical.ts';

/** An Ed25519 key pair. */
export interface SigningKey {
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
  /** Of the public key, as `keyIdOf` makes it. */
  readonly keyId: string;
}

type Unsigned = Omit<ConfigEnvelope, 'signature'>;

/** The 32 bytes of an Ed25519 public key. */
export function rawPublicKey(key: KeyObject): Buffer {
  return Buffer.from(key.export({ format: 'jwk' }).x ?? '', 'base64url');
}

/** `ed25519:` and 16 hex digits of the raw key's SHA-256. */
export const keyIdOf = (raw: Uint8Array): string =>
  `ed25519:${createHash('sha256').update(raw).digest('hex').slice(0, 16)}`;

/** What is signed: the envelope without its signature, as canonical JSON in UTF-8. */
function signedBytes(envelope: object): Buffer {
  const { signature: _, ...rest } = envelope as { signature?: unknown };
  return Buffer.from(canonicalJson(rest));
}

export function signEnvelope(envelope: Unsigned, key: SigningKey): ConfigEnvelope {
  return {
    ...envelope,
    signature: {
      alg: 'ed25519',
      key_id: key.keyId,
      public_key: rawPublicKey(key.publicKey).toString('base64'),
      value: sign(null, signedBytes(envelope), key.privateKey).toString('base64'),
    },
  };
}

/**
 * Whether a signature fits.
 * @param envelope as it was read, unknown members included: they are signed too
 * @param raw 32 bytes of the public key
 * @param value base64
 */
export function signatureFits(envelope: object, raw: Uint8Array, value: string): boolean {
  const bytes = bytesOf(value, 64);
  if (bytes === undefined) return false;
  try {
    const x = Buffer.from(raw).toString('base64url');
    const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' });
    return verify(null, signedBytes(envelope), key, bytes);
  } catch {
    return false;
  }
}

/** Base64 of so many bytes, or nothing; another spelling of the same bytes is nothing too. */
export function bytesOf(base64: string, count: number): Buffer | undefined {
  const bytes = Buffer.from(base64, 'base64');
  return bytes.length === count && bytes.toString('base64') === base64 ? bytes : undefined;
}
