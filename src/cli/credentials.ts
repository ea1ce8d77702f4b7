import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';
import { createFileOnce } from '../signing/create-file-once.ts';
import { generateSecret, hashSecret } from '../signing/secret.ts';
import { errorMessage } from '../util/error-message.ts';
import { systemCode } from '../util/system-code.ts';
import { StartError } from './start-error.ts';

/**
 * The host's credentials as SHA-256 in hex, which is enough to check a request. Undefined: there is no such credential.
 */
export interface Credentials {
  readonly bearerHash: string | undefined;
  readonly operatorHash: string | undefined;
  /** The tokens in plain text, for redaction. */
  readonly tokens: readonly string[];
}

/** A shorter token can be guessed, and a header can carry visible ASCII only. */
const tokenPattern = /^[\x21-\x7e]{16,1024}$/;

/**
 * Reads the credentials of the data directory, `bearer.token` and `operator.token`, and creates those that are absent.
 * @param bearerToken replaces the one in the data directory
 * @param onNotice receives messages for the operator
 */
export async function openCredentials(
  dataDir: string,
  bearerToken: string | undefined,
  onNotice: (message: string) => void,
): Promise<Credentials> {
  if (bearerToken !== undefined && !tokenPattern.test(bearerToken))
    throw new StartError(
      '--bearer-token-file: the token must be 16 to 1024 visible ASCII characters; `openssl rand -hex 32` makes one.',
    );
  const bearer = bearerToken ?? (await readOrCreateToken(join(dataDir, 'bearer.token'), 'bearer', onNotice));
  const operator = await readOrCreateToken(join(dataDir, 'operator.token'), 'operator', onNotice);
  return {
    bearerHash: bearer === undefined ? undefined : hashSecret(bearer),
    operatorHash: operator === undefined ? undefined : hashSecret(operator),
    tokens: [bearer, operator].filter((token) => token !== undefined),
  };
}

async function readOrCreateToken(
  file: string,
  kind: 'bearer' | 'operator',
  onNotice: (message: string) => void,
): Promise<string | undefined> {
  let text: string;
  try {
    text =
      (await readPrivateFile(file, onNotice)) ?? (await createFileOnce(file, `${generateSecret(kind)}\n`));
  } catch (error) {
    throw new StartError(
      `cannot use the credential file ${file}: ${errorMessage(error)}. Check its owner and mode.`,
    );
  }
  const token = text.trim();
  if (token === '') {
    onNotice(
      `${file} is empty: requests that need the ${kind} credential are refused. Delete the file to have a new one created.`,
    );
    return undefined;
  }
  if (tokenPattern.test(token)) return token;
  throw new StartError(
    `${file} must hold one token of 16 to 1024 visible ASCII characters. Delete it to have a new one created.`,
  );
}

/** Undefined: there is no such file. A file that other users can read is restricted to its owner (mode 600). */
async function readPrivateFile(
  file: string,
  onNotice: (message: string) => void,
): Promise<string | undefined> {
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
      onNotice(
        `${file} was readable by other users (mode ${(mode & 0o777).toString(8)}); its mode is now 600. If somebody may have read it, delete it and restart the host: a new one is created.`,
      );
    }
    return await handle.readFile('utf8');
  } finally {
    await handle.close();
  }
}
