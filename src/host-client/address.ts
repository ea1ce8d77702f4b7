import { readFile } from 'node:fs/promises';
import { UsageError } from '../config/options.ts';
import { toFileError } from '../terminal/file-error.ts';
import type { FlagRow } from '../terminal/arguments.ts';
import type { HostAddress } from './http.ts';

/** Flags of the tools that talk to a running host. */
export const hostFlags = {
  url: { kind: 'text', value: 'URL', help: 'URL of the host (default: $LATHE_URL or http://127.0.0.1:8080)' },
  token: { kind: 'text', value: 'TOKEN', help: 'bearer token of the host (default: $LATHE_TOKEN)' },
  'token-file': { kind: 'text', value: 'FILE', help: 'file that contains the token' },
} as const satisfies Record<string, FlagRow>;

/** Reads the address of the host from flags and environment. @throws UsageError; FileError for the token file */
export async function readHostAddress(
  flags: { readonly url?: string; readonly token?: string; readonly 'token-file'?: string },
  env: Readonly<Record<string, string | undefined>>,
): Promise<HostAddress> {
  const urlText = flags.url ?? (env['LATHE_URL'] || 'http://127.0.0.1:8080');
  const url = URL.parse(urlText);
  if (url === null || !/^https?:$/.test(url.protocol))
    throw new UsageError([
      `${flags.url === undefined ? 'LATHE_URL' : '--url'}: expected http://HOST:PORT, got '${urlText}'`,
    ]);
  const file = flags['token-file'];
  if (flags.token !== undefined && file !== undefined)
    throw new UsageError(['--token and --token-file exclude each other']);
  const token =
    file === undefined ? (flags.token ?? (env['LATHE_TOKEN'] || undefined)) : await readTokenFile(file);
  if (token !== undefined && !/^[\x21-\x7e]+$/.test(token))
    throw new UsageError(['the token may contain only visible ASCII characters']);
  return { url: (url.origin + url.pathname).replace(/\/+$/, ''), token };
}

async function readTokenFile(path: string): Promise<string> {
  try {
    return (await readFile(path, 'utf8')).trim();
  } catch (error) {
    throw toFileError(path, error);
  }
}

/** Lines for the violations that an error's message does not already contain: the host repeats a single one there. */
export const violationLines = ({
  message,
  violations,
}: {
  readonly message: string;
  readonly violations: readonly { readonly path: string; readonly message: string }[];
}): string[] =>
  violations
    .map((violation) => `${violation.path}: ${violation.message}`)
    .filter((text) => !message.includes(text))
    .map((text) => `  ${text}`);
