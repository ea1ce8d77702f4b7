import { randomUUID } from 'node:crypto';
import { link, open, readFile, unlink } from 'node:fs/promises';

/**
 * Creates a file (mode 600) atomically. If another process created it first, that file stays.
 * @returns the content of the file
 */
export async function createFileOnce(file: string, text: string): Promise<string> {
  const temporaryFile = `${file}.${randomUUID()}.tmp`;
  const handle = await open(temporaryFile, 'wx', 0o600);
  try {
    try {
      await handle.writeFile(text);
      await handle.sync();
    } finally {
      await handle.close();
    }
    // Link instead of rename: when two hosts start at once, the second must not replace the file of the first.
    await link(temporaryFile, file);
    return text;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    return await readFile(file, 'utf8');
  } finally {
    await unlink(temporaryFile);
  }
}
