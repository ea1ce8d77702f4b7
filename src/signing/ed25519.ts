import { createHash, createPublicKey, type KeyObject, sign, verify } from 'node:crypto';

/** An Ed25519 key pair. */
export interface SigningKey {
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
  /** Id of the public key, from `computeKeyId`. */
  readonly keyId: string;
}

/** The 32 bytes of an Ed25519 public key. */
export function rawPublicKey(key: KeyObject): Buffer {
  return Buffer.from(key.export({ format: 'jwk' }).x ?? '', 'base64url');
}

/** @param raw 32 bytes */
export const toPublicKey = (raw: Uint8Array): KeyObject =>
  createPublicKey({
    key: { kty: 'OKP', crv: 'Ed25519', x: Buffer.from(raw).toString('base64url') },
    format: 'jwk',
  });

/** `ed25519:` and 16 hex digits of the raw key's SHA-256. */
export const computeKeyId = (raw: Uint8Array): string =>
  `ed25519:${createHash('sha256').update(raw).digest('hex').slice(0, 16)}`;

/** @returns the 64-byte signature in base64 */
export const signBytes = (bytes: Uint8Array, { privateKey }: Pick<SigningKey, 'privateKey'>): string =>
  sign(null, bytes, privateKey).toString('base64');

/**
 * Whether a signature is valid. Never throws.
 * @param raw the public key, 32 bytes
 * @param value the signature in base64
 */
export function verifySignature(bytes: Uint8Array, raw: Uint8Array, value: string): boolean {
  const signature = decodeBase64(value, 64);
  if (signature === undefined) return false;
  try {
    return verify(null, bytes, toPublicKey(raw), signature);
  } catch {
    return false;
  }
}

/** Decodes base64 of exactly `count` bytes. Undefined for another length or a non-canonical encoding. */
export function decodeBase64(base64: string, count: number): Buffer | undefined {
  const bytes = Buffer.from(base64, 'base64');
  return bytes.length === count && bytes.toString('base64') === base64 ? bytes : undefined;
}
