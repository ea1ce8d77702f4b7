import { randomUUID } from 'node:crypto';
import { link, open, readFile, unlink } from 'node:fs/promises';

/**
 * Writes a new file for its owner only, whole or not at all, or finds that another process was faster.
 * @returns what the file holds
 */
export async function makeOnce(file: string, text: string): Promise<string> {
  const partial = `${file}.${randomUUID()}.tmp`;
  const handle = await open(partial, 'wx', 0o600);
  try {
    try {
      await handle.writeFile(text);
      await handle.sync();
    } finally {
      await handle.close();
    }
    // Not a rename: of two hosts that start at once, the second must not replace what the first one made.
    await link(partial, file);
    return text;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    return await readFile(file, 'utf8');
  } finally {
    await unlink(partial);
  }
}
