import { canonicalJson } from '../../signing/canonical-json.ts';
import { fits, rawPublicKey, signatureOf, type SigningKey } from '../../signing/ed25519.ts';
import type { ConfigEnvelope } from '../types.ts';

type Unsigned = Omit<ConfigEnvelope, 'signature'>;

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
      value: signatureOf(signedBytes(envelope), key),
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
  let bytes: Buffer;
  try {
    bytes = signedBytes(envelope);
  } catch {
    return false;
  }
  return fits(bytes, raw, value);
}
