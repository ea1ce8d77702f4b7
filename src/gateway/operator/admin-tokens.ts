import { createHash, timingSafeEqual } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { UsageError } from '../../config/usage.ts';
import { toFileError } from '../../terminal/file-error.ts';

/** Credentials of operators. Tokens are compared by their digests, in constant time. */
export class AdminTokens {
  readonly #digests: readonly { readonly name: string; readonly digest: Buffer }[];

  constructor(tokens: readonly { readonly name: string; readonly token: string }[]) {
    this.#digests = tokens.map(({ name, token }) => ({ name, digest: sha256(token) }));
  }

  /** The operator's name; undefined for an unknown token. */
  nameOf(token: string): string | undefined {
    const digest = sha256(token);
    let found: string | undefined;
    for (const one of this.#digests) if (timingSafeEqual(one.digest, digest)) found = one.name;
    return found;
  }
}

const sha256 = (text: string): Buffer => createHash('sha256').update(text).digest();

/** Shorter tokens could be guessed. */
const minTokenLength = 24;
export const adminTokenVariable = 'LATHE_GATEWAY_ADMIN_TOKEN';

/**
 * Reads the operators' tokens: from a file with a line `NAME TOKEN` for each operator, or one token from the environment,
 * whose operator is `operator`. Undefined without either. Rejects with `UsageError` with every fault; never repeats a token.
 * @param where the flag that names the file, for faults
 */
export async function readAdminTokens(
  path: string | undefined,
  env: Readonly<Record<string, string | undefined>>,
  where = '--admin-token-file',
): Promise<AdminTokens | undefined> {
  const variable = env[adminTokenVariable];
  if (path === undefined) {
    if (variable === undefined || variable === '') return undefined;
    if (!isToken(variable)) throw new UsageError([`${adminTokenVariable}: ${tokenError}`]);
    return new AdminTokens([{ name: 'operator', token: variable }]);
  }
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    throw new UsageError([`${where} ${toFileError(path, error).message}`]);
  }
  const faults: string[] = [];
  const tokens: { name: string; token: string }[] = [];
  for (const [index, line] of text.split('\n').entries()) {
    if (line.trim() === '' || line.startsWith('#')) continue;
    const at = `${where} ${path}:${index + 1}`;
    const [name = '', token = '', ...rest] = line.trim().split(/\s+/);
    if (!/^[\w.@-]{1,64}$/.test(name) || token === '' || rest.length > 0)
      faults.push(`${at}: expected NAME TOKEN; a name has up to 64 letters, digits and . _ - @`);
    else if (!isToken(token)) faults.push(`${at}: the token of ${name}: ${tokenError}`);
    else if (tokens.some((one) => one.name === name)) faults.push(`${at}: there are two tokens of ${name}`);
    else if (tokens.some((one) => one.token === token))
      faults.push(`${at}: ${name} has the token of another operator; changes are logged by its owner's name`);
    else tokens.push({ name, token });
  }
  if (tokens.length === 0 && faults.length === 0) faults.push(`${where} ${path}: it has no line NAME TOKEN`);
  if (faults.length > 0) throw new UsageError(faults);
  return new AdminTokens(tokens);
}

const isToken = (text: string): boolean => text.length >= minTokenLength && /^[\x21-\x7e]+$/.test(text);
const tokenError = `expected at least ${minTokenLength} printable characters without spaces, as of: openssl rand -base64 32`;
