import { readFile } from 'node:fs/promises';
import { UsageError } from '../../config/usage.ts';
import type { HostAddress } from '../../host-client/http.ts';
import { errorMessage } from '../../util/error-message.ts';
import { adminTokenVariable } from '../operator/admin-tokens.ts';
import type { FlagValues } from './flags.ts';

export const adminUrlVariable = 'LATHE_GATEWAY_ADMIN_URL';
type Environment = Readonly<Record<string, string | undefined>>;
type AddressFlags = Pick<FlagValues, 'admin-url' | 'admin-token-file' | 'config' | 'database'>;

/** The variable's URL. Flags that name a database, or a file that does, have priority over it. */
export const adminUrlIn = ({ config, database }: AddressFlags, env: Environment): string | undefined =>
  config === undefined && database === undefined ? env[adminUrlVariable] || undefined : undefined;

/**
 * The admin API that a command line or the environment names; undefined: the command works on the database. Rejects with
 * `UsageError` with every fault; never repeats a token.
 */
export async function readAdminAddress(
  flags: AddressFlags,
  env: Environment,
): Promise<HostAddress | undefined> {
  const { 'admin-url': flag, 'admin-token-file': file } = flags;
  const text = flag ?? adminUrlIn(flags, env);
  const faults: string[] = [];
  if (text === undefined) {
    if (file !== undefined) throw new UsageError([`--admin-token-file needs --admin-url URL`]);
    return undefined;
  }
  if (flag !== undefined)
    for (const name of ['database', 'config'] as const)
      if (flags[name] !== undefined) faults.push(`--admin-url and --${name} exclude each other`);
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '')
    // A URL with a password is not repeated.
    faults.push(`${flag === undefined ? adminUrlVariable : '--admin-url'}: expected http://HOST:PORT`);
  const token = await readToken(file, env).catch((error: unknown) => {
    if (!(error instanceof UsageError)) throw error;
    faults.push(...error.faults);
    return '';
  });
  if (faults.length > 0 || url === null) throw new UsageError(faults);
  const base = (url.origin + url.pathname).replace(/\/+$/, '').replace(/\/admin\/v1$/, '');
  return { url: base, token };
}

/** The operator's token, from a file with a line `NAME TOKEN` or `TOKEN`, or from the environment. */
async function readToken(path: string | undefined, env: Environment): Promise<string> {
  if (path === undefined) {
    const variable = env[adminTokenVariable]?.trim();
    if (!variable)
      throw new UsageError([
        `the admin API needs an operator's token: name a file with --admin-token-file FILE, or set ${adminTokenVariable}`,
      ]);
    return checkedToken(adminTokenVariable, variable);
  }
  const at = `--admin-token-file ${path}`;
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    throw new UsageError([`${at}: ${errorMessage(error)}`]);
  }
  const lines = text.split('\n').filter((line) => line.trim() !== '' && !line.startsWith('#'));
  if (lines.length !== 1)
    throw new UsageError([
      `${at}: expected one line, TOKEN or NAME TOKEN, got ${lines.length}: name a file that has your token alone`,
    ]);
  const words = (lines[0] ?? '').trim().split(/\s+/);
  if (words.length > 2)
    throw new UsageError([`${at}: expected TOKEN or NAME TOKEN, got ${words.length} words`]);
  return checkedToken(at, words.at(-1) ?? '');
}

function checkedToken(where: string, token: string): string {
  if (/^[\x21-\x7e]+$/.test(token)) return token;
  throw new UsageError([`${where}: the token may contain only visible ASCII characters`]);
}
