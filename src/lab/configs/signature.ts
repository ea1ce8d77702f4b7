import { canonicalJson } from '../../signing/canonical-json.ts';
import { verifySignature, rawPublicKey, signBytes, type SigningKey } from '../../signing/ed25519.ts';
import type { ConfigEnvelope } from '../types.ts';

type Unsigned = Omit<ConfigEnvelope, 'signature'>;

/** The signed bytes: the envelope without its signature, as canonical JSON in UTF-8. */
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
      value: signBytes(signedBytes(envelope), key),
    },
  };
}

/**
 * Verifies a signature.
 * @param envelope the envelope as read, with unknown members: the signature covers them
 * @param publicKey raw public key, 32 bytes
 * @param value signature, base64
 */
export function isSignatureValid(envelope: object, publicKey: Uint8Array, value: string): boolean {
  let bytes: Buffer;
  try {
    bytes = signedBytes(envelope);
  } catch {
    return false;
  }
  return verifySignature(bytes, publicKey, value);
}
