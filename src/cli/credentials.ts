import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';
import { makeOnce } from '../signing/make-once.ts';
import { newSecret, secretHash } from '../signing/secret.ts';
import { errorMessage } from '../util/error-message.ts';
import { systemCode } from '../util/system-code.ts';
import { StartError } from './start-error.ts';

/** The host's credentials: SHA-256 in hex, undefined where there is none, which is all that is needed to let somebody in. */
export interface Credentials {
  readonly bearerHash: string | undefined;
  readonly operatorHash: string | undefined;
  /** Themselves, for whoever has to take them out of texts. */
  readonly texts: readonly string[];
}

/** Shorter ones can be guessed, and what is no visible ASCII cannot be sent in a header. */
const form = /^[\x21-\x7e]{16,1024}$/;

/**
 * The credentials of the data directory, `bearer.token` and `operator.token`, made where they are absent.
 * @param bearerToken in place of the data directory's own
 * @param notice hears of what an operator should know
 */
export async function openCredentials(
  dataDir: string,
  bearerToken: string | undefined,
  notice: (message: string) => void,
): Promise<Credentials> {
  if (bearerToken !== undefined && !form.test(bearerToken))
    throw new StartError(
      '--bearer-token-file: the token must be 16 to 1024 visible ASCII characters; `openssl rand -hex 32` makes one.',
    );
  const bearer = bearerToken ?? (await kept(join(dataDir, 'bearer.token'), 'bearer', notice));
  const operator = await kept(join(dataDir, 'operator.token'), 'operator', notice);
  return {
    bearerHash: bearer === undefined ? undefined : secretHash(bearer),
    operatorHash: operator === undefined ? undefined : secretHash(operator),
    texts: [bearer, operator].filter((token) => token !== undefined),
  };
}

async function kept(
  file: string,
  kind: 'bearer' | 'operator',
  notice: (message: string) => void,
): Promise<string | undefined> {
  let text: string;
  try {
    text = (await read(file, notice)) ?? (await makeOnce(file, `${newSecret(kind)}\n`));
  } catch (error) {
    throw new StartError(
      `the credential ${file} cannot be used: ${errorMessage(error)}. Check its owner and mode.`,
    );
  }
  const token = text.trim();
  if (token === '') {
    notice(
      `${file} is empty: what needs the ${kind}'s credential is refused. Remove the file, and a new one is made.`,
    );
    return undefined;
  }
  if (form.test(token)) return token;
  throw new StartError(
    `${file} must hold one token of 16 to 1024 visible ASCII characters. Remove it, and a new one is made.`,
  );
}

/** Undefined where there is no such file. One that others may read is closed to them. */
async function read(file: string, notice: (message: string) => void): Promise<string | undefined> {
  let handle: FileHandle;
  try {
    handle = await open(file, 'r');
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined;
    throw error;
  }
  try {
    const { mode } = await handle.stat();
    if ((mode & 0o077) !== 0 && process.platform !== 'win32') {
      await handle.chmod(0o600);
      notice(
        `${file} was open to others (mode ${(mode & 0o777).toString(8)}) and is now the owner's only. If somebody may have read it, remove it and start again: a new one is made.`,
      );
    }
    return await handle.readFile('utf8');
  } finally {
    await handle.close();
  }
}
