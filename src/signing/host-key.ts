import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { computeKeyId, rawPublicKey, type SigningKey } from './ed25519.ts';
import { createFileOnce } from './create-file-once.ts';
import { safeErrorReason } from '../words/plain-reason.ts';

/** The host key exists but is unusable, or cannot be created. */
export class HostKeyError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'HostKeyError';
  }
}

/**
 * Loads the key that the host signs receipts and configs with: `host.key` in the data directory. Creates it when the
 * file is missing. Throws `HostKeyError` when the file holds no Ed25519 key.
 */
export async function loadHostKey(dataDir: string): Promise<SigningKey> {
  const file = join(dataDir, 'host.key');
  const existingPem = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw new HostKeyError(`${file} cannot be read: ${describeFileError(error)}.`);
  });
  const pem =
    existingPem ??
    (await createKeyFile(file).catch((error: unknown) => {
      throw new HostKeyError(`${file} cannot be written: ${describeFileError(error)}.`);
    }));
  let privateKey: KeyObject;
  try {
    privateKey = createPrivateKey(pem);
    if (privateKey.asymmetricKeyType !== 'ed25519') throw new Error(String(privateKey.asymmetricKeyType));
  } catch {
    throw new HostKeyError(
      `${file} holds no Ed25519 key. Restore the file, or remove it to create a new key. Configs that the old key signed are then no longer trusted unless --trust-key names it, and receipts that it signed verify with the old public key only.`,
    );
  }
  const publicKey = createPublicKey(privateKey);
  return { privateKey, publicKey, keyId: computeKeyId(rawPublicKey(publicKey)) };
}

/**
 * Encodings of the private key to redact in texts: the lines of its file, and its 32 bytes in hex, base64 and
 * base64url.
 */
export function privateKeyEncodings({ privateKey }: Pick<SigningKey, 'privateKey'>): string[] {
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' });
  const lines = pem.split('\n').filter((line) => line !== '' && !line.startsWith('-----'));
  const bytes = Buffer.from(privateKey.export({ format: 'jwk' }).d ?? '', 'base64url');
  const encoded = (['hex', 'base64', 'base64url'] as const).map((encoding) => bytes.toString(encoding));
  // The first 16 bytes (22 characters) of the base64 line are the PKCS #8 header, the same in every key.
  return [...lines, ...lines.map((line) => line.slice(22)), ...encoded];
}

/** Creates a key, or returns the one that another process has just created. */
const createKeyFile = (file: string): Promise<string> =>
  createFileOnce(file, generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }));

const errorReasons: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  EISDIR: 'it is a directory',
  EACCES: 'the host has no right to it',
  ENOSPC: 'the disk is full',
  EROFS: 'the file system is read-only',
};

function describeFileError(error: unknown): string {
  const { code } = error as NodeJS.ErrnoException;
  return errorReasons[code ?? ''] ?? safeErrorReason(error);
}
