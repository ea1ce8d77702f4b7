import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { keyIdOf, rawPublicKey, type SigningKey } from './ed25519.ts';
import { makeOnce } from './make-once.ts';
import { plainReason } from '../words/plain-reason.ts';

/** The key is there but cannot be used, or cannot be made. */
export class HostKeyError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'HostKeyError';
  }
}

/**
 * The key that this host signs its receipts and configs with: `host.key` in the data directory, made at first need.
 * Throws `HostKeyError` where the file is there but holds no such key.
 */
export async function hostKey(dataDir: string): Promise<SigningKey> {
  const file = join(dataDir, 'host.key');
  const kept = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw new HostKeyError(`${file} cannot be read: ${messageOf(error)}.`);
  });
  const pem =
    kept ??
    (await makeKey(file).catch((error: unknown) => {
      throw new HostKeyError(`${file} cannot be written: ${messageOf(error)}.`);
    }));
  let privateKey: KeyObject;
  try {
    privateKey = createPrivateKey(pem);
    if (privateKey.asymmetricKeyType !== 'ed25519') throw new Error(String(privateKey.asymmetricKeyType));
  } catch {
    throw new HostKeyError(
      `${file} holds no Ed25519 key. Restore it, or remove it: then a new key is made; configs that the old one signed are no longer trusted unless --trust-key names it, and receipts that it signed verify with the old public key only.`,
    );
  }
  const publicKey = createPublicKey(privateKey);
  return { privateKey, publicKey, keyId: keyIdOf(rawPublicKey(publicKey)) };
}

/** The private key as it may stand in a text: the lines of its file, and its 32 bytes in hex, base64 and base64url. */
export function textsOfKey({ privateKey }: Pick<SigningKey, 'privateKey'>): string[] {
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' });
  const lines = pem.split('\n').filter((line) => line !== '' && !line.startsWith('-----'));
  const bytes = Buffer.from(privateKey.export({ format: 'jwk' }).d ?? '', 'base64url');
  const encoded = (['hex', 'base64', 'base64url'] as const).map((encoding) => bytes.toString(encoding));
  // The first 16 bytes of the file's line say that it is such a key. The 22 characters for them are in every one.
  return [...lines, ...lines.map((line) => line.slice(22)), ...encoded];
}

/** A new key, or the one that another host made in the meantime. */
const makeKey = (file: string): Promise<string> =>
  makeOnce(file, generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }));

const troubles: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  EISDIR: 'it is a directory',
  EACCES: 'the host has no right to it',
  ENOSPC: 'the disk is full',
  EROFS: 'the file system is read-only',
};

function messageOf(error: unknown): string {
  const { code } = error as NodeJS.ErrnoException;
  return troubles[code ?? ''] ?? plainReason(error);
}
