import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
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

/** As `base_hash` has it; nothing where it cannot be read. */
async function hashOf(path: string): Promise<string | undefined> {
  try {
    const hash = createHash('sha256');
    for await (const bytes of createReadStream(path)) hash.update(bytes as Uint8Array);
    return `sha256:${hash.digest('hex')}`;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT' ? 'absent' : undefined;
  }
}
