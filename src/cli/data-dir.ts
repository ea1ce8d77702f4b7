import { randomUUID } from 'node:crypto';
import { mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import { errorMessage } from '../util/error-message.ts';
import { systemCode } from '../util/system-code.ts';
import { StartError } from './start-error.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** `$LATHE_DATA_DIR`, else `lathe` in the XDG data directory. */
export function defaultDataDir(env: Environment, home: string): string {
  if (env['LATHE_DATA_DIR']) return env['LATHE_DATA_DIR'];
  const xdg = env['XDG_DATA_HOME'];
  // The XDG specification ignores relative values.
  return join(xdg && isAbsolute(xdg) ? xdg : join(home, '.local', 'share'), 'lathe');
}

export interface DataDir {
  readonly path: string;
  /** Id of this host. It stays the same after a restart. */
  readonly endpointId: string;
}

/** Creates the directory with mode 700 if it is absent. */
export async function openDataDir(directory: string): Promise<DataDir> {
  const path = resolve(directory);
  try {
    await makeFolder(path);
    return { path, endpointId: await endpointId(join(path, 'endpoint-id')) };
  } catch (error) {
    throw new StartError(
      `cannot use the data directory ${path}: ${errorMessage(error)}. Choose another with --data-dir DIR.`,
    );
  }
}

/**
 * The directory of a host that was started before. Creates and changes nothing.
 * @throws StartError when it has no identity
 */
export async function readDataDir(directory: string): Promise<DataDir> {
  const path = resolve(directory);
  const id = (await readFile(join(path, 'endpoint-id'), 'utf8').catch(() => '')).trim();
  if (id !== '') return { path, endpointId: id };
  throw new StartError(
    `there is no endpoint-id in ${path}: this file is the identity that the host's receipts are chained under. Name the host's data directory with --data-dir DIR, or restore the file.`,
  );
}

/** Not `recursive`: Node's recursive mkdir never returns where the system refuses to create folders (such as /proc). */
async function makeFolder(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (error) {
    const code = systemCode(error);
    if (code === 'EEXIST' && (await stat(path)).isDirectory()) return;
    const parent = dirname(path);
    if (code !== 'ENOENT' || parent === path || (await stat(parent).catch(() => undefined)) !== undefined)
      throw error;
    await makeFolder(parent);
    await mkdir(path, { mode: 0o700 });
  }
}

async function endpointId(file: string): Promise<string> {
  try {
    // `wx`: of two hosts that start at once, one creates the id and the other reads it.
    const newId = randomUUID();
    await writeFile(file, `${newId}\n`, { flag: 'wx', mode: 0o600 });
    return newId;
  } catch (error) {
    if (systemCode(error) !== 'EEXIST') throw error;
  }
  const storedId = (await readFile(file, 'utf8')).trim();
  if (storedId !== '') return storedId;
  // Another host is writing the file, or an interrupted start left it empty.
  const newId = randomUUID();
  await writeFile(file, `${newId}\n`);
  return newId;
}

export const modelsDir = (dataDir: string): string => join(dataDir, 'models');

/** Database of tasks, runs and receipts: `--database`, else SQLite in the data directory. */
export const databaseUrl = (database: string | undefined, dataDir: string): string =>
  database ?? `sqlite:${join(dataDir, 'lathe.db')}`;
