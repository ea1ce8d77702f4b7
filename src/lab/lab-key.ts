import type { SigningKey } from '../signing/ed25519.ts';
import { HostKeyError, loadHostKey } from '../signing/host-key.ts';
import { LabError } from './types.ts';

/** Signing key of the host. Throws `LabError` `lab_failed` when it cannot be read or created. */
export async function labKey(dataDir: string): Promise<SigningKey> {
  try {
    return await loadHostKey(dataDir);
  } catch (error) {
    if (error instanceof HostKeyError) throw new LabError('lab_failed', error.message);
    throw error;
  }
}
