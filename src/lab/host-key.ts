import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomUUID,
} from 'node:crypto';
import { link, open, readFile, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { messageOf } from './configs/store.ts';
import { keyIdOf, rawPublicKey, type SigningKey } from './configs/signature.ts';
import { LabError } from './types.ts';

/**
 * The key that this host signs its configs with: `host.key` in the data directory, made at first need.
 * Throws `LabError` `lab_failed` where the file is there but holds no such key.
 */
export async function hostKey(dataDir: string): Promise<SigningKey> {
  const file = join(dataDir, 'host.key');
  const kept = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw new LabError('lab_failed', `${file} cannot be read: ${messageOf(error)}.`);
  });
  const pem =
    kept ??
    (await makeKey(file).catch((error: unknown) => {
      throw new LabError('lab_failed', `${file} cannot be written: ${messageOf(error)}.`);
    }));
  let privateKey: KeyObject;
  try {
    privateKey = createPrivateKey(pem);
    if (privateKey.asymmetricKeyType !== 'ed25519') throw new Error(String(privateKey.asymmetricKeyType));
  } catch {
    throw new LabError(
      'lab_failed',
      `${file} holds no Ed25519 key. Restore it, or remove it: then a new key is made, and configs that the old one signed are no longer trusted unless --trust-key names it.`,
    );
  }
  const publicKey = createPublicKey(privateKey);
  return { privateKey, publicKey, keyId: keyIdOf(rawPublicKey(publicKey)) };
}

/** Writes a new key, or finds that another host was faster; either way the text of the file. */
async function makeKey(file: string): Promise<string> {
  const pem = generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' });
  const partial = `${file}.${randomUUID()}.tmp`;
  const handle = await open(partial, 'wx', 0o600);
  try {
    try {
      await handle.writeFile(pem);
      await handle.sync();
    } finally {
      await handle.close();
    }
    // Not a rename: of two hosts that start at once, the second must not replace the key of the first.
    await link(partial, file);
    return pem;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    return await readFile(file, 'utf8');
  } finally {
    await unlink(partial);
  }
}
