import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { decodeBase64 } from '../../signing/ed25519.ts';
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
export type AssociatedData = readonly (string | null)[];

/** A record that cannot be decrypted. The message holds nothing of the secret. */
export class EnvelopeError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'EnvelopeError';
  }
}

const alg = 'A256GCM';
const cipherName = 'aes-256-gcm';
const [ivLength, tagLength, keyLength] = [12, 16, 32];

/** Encrypts a secret with a new data key. @throws EnvelopeError when there is no master key */
export function encryptSecret(
  masterKeys: MasterKeys,
  associatedData: AssociatedData,
  secret: string,
): Envelope {
  const dataKey = randomBytes(keyLength);
  try {
    const { iv, tag, encrypted } = encrypt(dataKey, secretAad(associatedData), Buffer.from(secret, 'utf8'));
    return {
      alg,
      ...wrapDataKey(masterKeys, associatedData, dataKey),
      iv: iv.toString('base64'),
      tag: tag.toString('base64'),
      ciphertext: encrypted.toString('base64'),
    };
  } finally {
    dataKey.fill(0);
  }
}

/** Decrypts a secret. @throws EnvelopeError */
export function decryptSecret(
  masterKeys: MasterKeys,
  associatedData: AssociatedData,
  envelope: Envelope,
): string {
  const dataKey = unwrapDataKey(masterKeys, associatedData, envelope);
  try {
    return openSecret(dataKey, associatedData, envelope);
  } finally {
    dataKey.fill(0);
  }
}

/**
 * Re-encrypts the data key with the first master key, and checks that the secret can be decrypted.
 * @returns undefined when the data key is already encrypted with that key
 * @throws EnvelopeError
 */
export function rewrapDataKey(
  masterKeys: MasterKeys,
  associatedData: AssociatedData,
  envelope: Envelope,
): Pick<Envelope, 'kek_id' | 'wrapped_key'> | undefined {
  const dataKey = unwrapDataKey(masterKeys, associatedData, envelope);
  try {
    openSecret(dataKey, associatedData, envelope);
    return envelope.kek_id === masterKeys[0]?.id
      ? undefined
      : wrapDataKey(masterKeys, associatedData, dataKey);
  } finally {
    dataKey.fill(0);
  }
}

function wrapDataKey(masterKeys: MasterKeys, associatedData: AssociatedData, dataKey: Buffer) {
  const master = masterKeys[0];
  if (master === undefined) throw new EnvelopeError('there is no master key to encrypt it with');
  const { iv, tag, encrypted } = encrypt(master.key, dataKeyAad(associatedData, master.id), dataKey);
  return { kek_id: master.id, wrapped_key: Buffer.concat([iv, tag, encrypted]).toString('base64') };
}

function unwrapDataKey(
  masterKeys: MasterKeys,
  associatedData: AssociatedData,
  { alg: found, kek_id, wrapped_key }: Omit<Envelope, 'alg'> & { readonly alg: string },
): Buffer {
  if (found !== alg) throw new EnvelopeError(`its algorithm '${found}' is not ${alg}`);
  const master = masterKeys.find(({ id }) => id === kek_id);
  if (master === undefined) {
    const known = masterKeys.map(({ id }) => `'${id}'`).join(', ');
    throw new EnvelopeError(
      `it was encrypted with the master key '${kek_id}', which is not configured (${known === '' ? 'there is none' : `there are: ${known}`})`,
    );
  }
  const wrapped = decodeBase64(wrapped_key, ivLength + tagLength + keyLength);
  const dataKey =
    wrapped &&
    decrypt(
      master.key,
      dataKeyAad(associatedData, kek_id),
      wrapped.subarray(0, ivLength),
      wrapped.subarray(ivLength, ivLength + tagLength),
      wrapped.subarray(ivLength + tagLength),
    );
  if (dataKey === undefined)
    throw new EnvelopeError(
      `the master key '${kek_id}' does not decrypt it: it is another key of that name, or the record was changed`,
    );
  return dataKey;
}

function openSecret(
  dataKey: Buffer,
  associatedData: AssociatedData,
  { iv, tag, ciphertext }: Envelope,
): string {
  const [ivBytes, tagBytes] = [decodeBase64(iv, ivLength), decodeBase64(tag, tagLength)];
  const encrypted = Buffer.from(ciphertext, 'base64');
  const secret =
    ivBytes && tagBytes && encrypted.toString('base64') === ciphertext
      ? decrypt(dataKey, secretAad(associatedData), ivBytes, tagBytes, encrypted)
      : undefined;
  if (secret === undefined)
    throw new EnvelopeError('its data key can be decrypted, but its secret cannot: the record was changed');
  return secret.toString('utf8');
}

/** The additional data is a JSON list, so that no two different lists have the same bytes. */
const secretAad = (associatedData: AssociatedData): string =>
  JSON.stringify(['secret', alg, ...associatedData]);
const dataKeyAad = (associatedData: AssociatedData, kekId: string): string =>
  JSON.stringify(['key', alg, kekId, ...associatedData]);

function encrypt(key: Buffer, aad: string, bytes: Buffer) {
  const iv = randomBytes(ivLength);
  const encryptor = createCipheriv(cipherName, key, iv, { authTagLength: tagLength }).setAAD(
    Buffer.from(aad),
  );
  const encrypted = Buffer.concat([encryptor.update(bytes), encryptor.final()]);
  return { iv, tag: encryptor.getAuthTag(), encrypted };
}

/** @returns undefined when authentication fails */
function decrypt(key: Buffer, aad: string, iv: Buffer, tag: Buffer, encrypted: Buffer): Buffer | undefined {
  // The tag length is fixed, because shorter tags are easier to forge.
  const decryptor = createDecipheriv(cipherName, key, iv, { authTagLength: tagLength })
    .setAAD(Buffer.from(aad))
    .setAuthTag(tag);
  try {
    return Buffer.concat([decryptor.update(encrypted), decryptor.final()]);
  } catch {
    return undefined;
  }
}
