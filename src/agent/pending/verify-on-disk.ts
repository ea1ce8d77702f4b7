import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import type { PendingRow } from './rows.ts';

/**
 * Determines from the disk whether a file change was applied, for tools that cannot verify it or no longer exist. A
 * file that still has its base hash was not changed; a file to delete that is gone was deleted.
 */
export async function verifyOnDisk({
  kind,
  path,
  base_hash,
}: PendingRow): Promise<'applied' | 'not_applied' | 'unknown'> {
  if ((kind !== 'file_write' && kind !== 'file_delete') || path === null || base_hash === null)
    return 'unknown';
  const currentHash = await hashFile(path);
  if (currentHash === base_hash) return 'not_applied';
  return kind === 'file_delete' && currentHash === 'absent' ? 'applied' : 'unknown';
}

const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;

/** Hash in the format of `base_hash`; undefined when the path is unreadable or not a regular file. */
async function hashFile(path: string): Promise<string | undefined> {
  try {
    const file = await open(path, O_RDONLY | (O_NOFOLLOW ?? 0) | (O_NONBLOCK ?? 0));
    try {
      if (!(await file.stat()).isFile()) return undefined;
      const hash = createHash('sha256');
      for await (const bytes of file.createReadStream({ autoClose: false })) hash.update(bytes as Uint8Array);
      return `sha256:${hash.digest('hex')}`;
    } finally {
      await file.close();
    }
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT' ? 'absent' : undefined;
  }
}
