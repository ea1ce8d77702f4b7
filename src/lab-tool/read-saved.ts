import type { LabClient } from './client.ts';
import { isFileWord } from './file-word.ts';
import { FileError } from '../terminal/file-error.ts';
import { readText } from './local-kernels.ts';

/**
 * Reads a JSON document by the name of a saved config or by a file path. A word that looks like a path, or is an
 * existing file, is a path. Throws `FileError`, and `HostError` for names.
 */
export async function readSaved(client: LabClient, word: string): Promise<unknown> {
  if (!(await isFileWord(word, /\.json$/))) return await client.config(word);
  const text = await readText(word, word);
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new FileError(word, 'it is not JSON');
  }
}
