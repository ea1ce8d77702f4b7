import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { bytesOf } from '../../signing/ed25519.ts';
import type { GatewayConfig } from '../config/types.ts';

export type MasterKeys = GatewayConfig['masterKeys'];

/** Envelope encryption: the secret is encrypted with a data key, and the data key with a master key. Values are base64. */
export interface Envelope {
  readonly alg: 'A256GCM';
  /** Id of the master key. */
  readonly kek_id: string;
  /** The encrypted data key: IV (12 bytes), tag (16 bytes), ciphertext (32 bytes). */
  readonly wrapped_key: string;
  readonly iv: string;
  readonly tag: string;
  readonly ciphertext: string;
}

/** Additional authenticated data: the columns that a secret is bound to. If one changes, decryption fails. */
export type Belonging = readonly (string | null)[];

/** A record that cannot be decrypted. The message holds nothing of the secret. */
export class EnvelopeError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'EnvelopeError';
  }
}

const alg = 'A256GCM';
const cipher = 'aes-256-gcm';
const [ivLength, tagLength, keyLength] = [12, 16, 32];

/** Encrypts a secret with a new data key. @throws EnvelopeError when there is no master key */
export function seal(masters: MasterKeys, belonging: Belonging, secret: string): Envelope {
  const recordKey = randomBytes(keyLength);
  try {
    const { iv, tag, sealed } = encrypt(recordKey, dataLabel(belonging), Buffer.from(secret, 'utf8'));
    return {
      alg,
      ...wrap(masters, belonging, recordKey),
      iv: iv.toString('base64'),
      tag: tag.toString('base64'),
      ciphertext: sealed.toString('base64'),
    };
  } finally {
    recordKey.fill(0);
  }
}

/** Decrypts a secret. @throws EnvelopeError */
export function unseal(masters: MasterKeys, belonging: Belonging, envelope: Envelope): string {
  const recordKey = unwrap(masters, belonging, envelope);
  try {
    return secretOf(recordKey, belonging, envelope);
  } finally {
    recordKey.fill(0);
  }
}

/**
 * Re-encrypts the data key with the first master key, and checks that the secret can be decrypted.
 * @returns undefined when the data key is already encrypted with that key
 * @throws EnvelopeError
 */
export function rewrap(
  masters: MasterKeys,
  belonging: Belonging,
  envelope: Envelope,
): Pick<Envelope, 'kek_id' | 'wrapped_key'> | undefined {
  const recordKey = unwrap(masters, belonging, envelope);
  try {
    secretOf(recordKey, belonging, envelope);
    return envelope.kek_id === masters[0]?.id ? undefined : wrap(masters, belonging, recordKey);
  } finally {
    recordKey.fill(0);
  }
}

function wrap(masters: MasterKeys, belonging: Belonging, recordKey: Buffer) {
  const master = masters[0];
  if (master === undefined) throw new EnvelopeError('there is no master key to encrypt it with');
  const { iv, tag, sealed } = encrypt(master.key, keyLabel(belonging, master.id), recordKey);
  return { kek_id: master.id, wrapped_key: Buffer.concat([iv, tag, sealed]).toString('base64') };
}

function unwrap(
  masters: MasterKeys,
  belonging: Belonging,
  { alg: found, kek_id, wrapped_key }: Omit<Envelope, 'alg'> & { readonly alg: string },
): Buffer {
  if (found !== alg) throw new EnvelopeError(`its algorithm '${found}' is not ${alg}`);
  const master = masters.find(({ id }) => id === kek_id);
  if (master === undefined) {
    const known = masters.map(({ id }) => `'${id}'`).join(', ');
    throw new EnvelopeError(
      `it was encrypted with the master key '${kek_id}', which is not configured (${known === '' ? 'there is none' : `there are: ${known}`})`,
    );
  }
  const wrapped = bytesOf(wrapped_key, ivLength + tagLength + keyLength);
  const recordKey =
    wrapped &&
    decrypt(
      master.key,
      keyLabel(belonging, kek_id),
      wrapped.subarray(0, ivLength),
      wrapped.subarray(ivLength, ivLength + tagLength),
      wrapped.subarray(ivLength + tagLength),
    );
  if (recordKey === undefined)
    throw new EnvelopeError(
      `the master key '${kek_id}' does not decrypt it: it is another key of that name, or the record was changed`,
    );
  return recordKey;
}

function secretOf(recordKey: Buffer, belonging: Belonging, { iv, tag, ciphertext }: Envelope): string {
  const [ivBytes, tagBytes] = [bytesOf(iv, ivLength), bytesOf(tag, tagLength)];
  const sealed = Buffer.from(ciphertext, 'base64');
  const secret =
    ivBytes && tagBytes && sealed.toString('base64') === ciphertext
      ? decrypt(recordKey, dataLabel(belonging), ivBytes, tagBytes, sealed)
      : undefined;
  if (secret === undefined)
    throw new EnvelopeError('its data key can be decrypted, but its secret cannot: the record was changed');
  return secret.toString('utf8');
}

/** The additional data is a JSON list, so that no two different lists have the same bytes. */
const dataLabel = (belonging: Belonging): string => JSON.stringify(['secret', alg, ...belonging]);
const keyLabel = (belonging: Belonging, kekId: string): string =>
  JSON.stringify(['key', alg, kekId, ...belonging]);

function encrypt(key: Buffer, label: string, bytes: Buffer) {
  const iv = randomBytes(ivLength);
  const sealing = createCipheriv(cipher, key, iv, { authTagLength: tagLength }).setAAD(Buffer.from(label));
  const sealed = Buffer.concat([sealing.update(bytes), sealing.final()]);
  return { iv, tag: sealing.getAuthTag(), sealed };
}

/** @returns undefined when authentication fails */
function decrypt(key: Buffer, label: string, iv: Buffer, tag: Buffer, sealed: Buffer): Buffer | undefined {
  // The tag length is fixed, because shorter tags are easier to forge.
  const opening = createDecipheriv(cipher, key, iv, { authTagLength: tagLength })
    .setAAD(Buffer.from(label))
    .setAuthTag(tag);
  try {
    return Buffer.concat([opening.update(sealed), opening.final()]);
  } catch {
    return undefined;
  }
}
