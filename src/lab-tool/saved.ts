import { stat } from 'node:fs/promises';
import type { LabClient } from './client.ts';
import { FileError } from '../terminal/file-error.ts';
import { readText } from './kernels.ts';

/**
 * A JSON document by the name of a saved config or by its file. What looks like a path, or is there, is a file.
 * Throws `FileError`, and `HostError` for names.
 */
export async function readSaved(client: LabClient, word: string): Promise<unknown> {
  const pathLike = /[/\\]|\.json$/.test(word);
  const there = await stat(word).then(
    (found) => found.isFile(),
    () => false,
  );
  if (!pathLike && !there) return await client.config(word);
  const text = await readText(word, word);
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new FileError(word, 'it is not JSON');
  }
}
