import { basename, delimiter, dirname } from 'node:path';

/**
 * A program as a person can call it again in any folder: its name where the shell finds it, else its path.
 * @param path absolute path of the script, `process.argv[1]`
 * @param searchPath the variable `PATH`
 */
export function programName(path: string, searchPath = ''): string {
  if (searchPath.split(delimiter).includes(dirname(path))) return basename(path);
  const quoted = /^[\w@%+=:,./\\-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`;
  return /\.[jt]s$/.test(path) ? `node ${quoted}` : quoted;
}
