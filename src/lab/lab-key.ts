import type { SigningKey } from '../signing/ed25519.ts';
import { HostKeyError, hostKey } from '../signing/host-key.ts';
import { LabError } from './types.ts';

/** The host's key. Throws `LabError` `lab_failed` where there is none to be had. */
export async function labKey(dataDir: string): Promise<SigningKey> {
  try {
    return await hostKey(dataDir);
  } catch (error) {
    if (error instanceof HostKeyError) throw new LabError('lab_failed', error.message);
    throw error;
  }
}
