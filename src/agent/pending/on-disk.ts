import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import type { PendingRow } from './rows.ts';

/**
 * What became of a change of a file, as far as its path shows: for tools that cannot tell themselves, or are gone. A
 * file that holds its base was not changed; one that was to go and is gone was deleted.
 */
export async function onDisk({
  kind,
  path,
  base_hash,
}: PendingRow): Promise<'applied' | 'not_applied' | 'unknown'> {
  if ((kind !== 'file_write' && kind !== 'file_delete') || path === null || base_hash === null)
    return 'unknown';
  const holds = await hashOf(path);
  if (holds === base_hash) return 'not_applied';
  return kind === 'file_delete' && holds === 'absent' ? 'applied' : 'unknown';
}

const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;

/** As `base_hash` has it; nothing where it cannot be read, or a link or a pipe took its place. */
async function hashOf(path: string): Promise<string | undefined> {
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
