import { stat } from 'node:fs/promises';

/**
 * Whether a word means a file and not the name of a kernel or config, which may contain dots.
 * @param extensions of such files
 */
export async function isFileWord(word: string, extensions: RegExp): Promise<boolean> {
  if (/[/\\]/.test(word) || extensions.test(word)) return true;
  return await stat(word).then(
    (found) => found.isFile(),
    () => false,
  );
}
