import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { join, resolve } from 'node:path';
import { databaseUrl, defaultDataDir } from '../cli/data-dir.ts';
import { lockHolder } from '../cli/data-dir-lock.ts';
import { StartError } from '../cli/start-error.ts';
import { UsageError } from '../config/usage.ts';
import { HostError } from '../host-client/errors.ts';
import { sendRequest, type HostAddress } from '../host-client/http.ts';
import { toFileError } from '../terminal/file-error.ts';
import { systemCode } from '../util/system-code.ts';
import type { Flags } from './arguments.ts';
import { hostHints, httpSource } from './http-source.ts';
import type { Source } from './source.ts';
import { offlineSource } from './offline-source.ts';
import type { ObserveCliContext } from './cli-context.ts';

const defaultUrl = 'http://127.0.0.1:8080';

/** Opens the host that the flags name, else the host that runs on the data directory, else the directory itself. */
export async function openSource(flags: Flags, cli: ObserveCliContext): Promise<Source> {
  const { env, home, stopping: over } = cli;
  const dataDir = resolve(flags['data-dir'] ?? defaultDataDir(env, home));
  const faults = flagFaults(flags, env);
  if (faults.length > 0) throw new UsageError(faults);
  const explicitUrl =
    flags.url ??
    (flags['data-dir'] === undefined && flags.database === undefined
      ? env['LATHE_URL'] || undefined
      : undefined);
  if (explicitUrl !== undefined) {
    const url = normalizeUrl(explicitUrl);
    const token = await tokenFor(url, flags, cli, dataDir);
    return httpSource({ url, token }, over);
  }
  if (flags.database === undefined) {
    const holder = lockHolder(dataDir);
    if (holder !== undefined) return httpSource(await findLocalHost(dataDir, holder, flags, cli), over);
  }
  const database = flags.database ?? databaseUrl(undefined, dataDir);
  return await offlineSource({ database, dataDir, worker: cli.entry('observe-worker') });
}

function flagFaults(flags: Flags, env: ObserveCliContext['env']): string[] {
  const given = [
    ['--url', flags.url],
    ['LATHE_URL', env['LATHE_URL'] || undefined],
  ] as const;
  return [
    ...given
      .filter(([, url]) => url !== undefined && !/^https?:$/.test(URL.parse(url)?.protocol ?? ''))
      .map(([name, url]) => `${name}: expected http://HOST:PORT, got '${url}'`),
    ...(flags.url !== undefined && flags.database !== undefined
      ? ['--url and --database exclude each other, because a host reads its own database']
      : []),
    ...(flags.database !== undefined && !/^(?:sqlite:.+|postgres(?:ql)?:\/\/.+)$/s.test(flags.database)
      ? // The value may contain a password, so the message does not repeat it.
        ['--database: expected sqlite:PATH or postgres://USER@HOST/DATABASE']
      : []),
  ];
}

const normalizeUrl = (given: string): string => {
  const { origin, pathname } = new URL(given);
  return (origin + pathname).replace(/\/+$/, '');
};

/** Address of the host that runs on the data directory, if it listens at the default URL. */
async function findLocalHost(
  dataDir: string,
  holder: string,
  flags: Flags,
  cli: ObserveCliContext,
): Promise<HostAddress> {
  const url = normalizeUrl(cli.env['LATHE_URL'] || defaultUrl);
  const token = await tokenFor(url, flags, cli, dataDir);
  const prefix = `a host${holder} runs on the data directory ${dataDir}`;
  let found: string | undefined;
  try {
    found = await readEndpointId({ url }, cli.stopping).catch((error: unknown) => {
      // A host that listens on a non-loopback address requires the token.
      if (error instanceof HostError && error.status === 401)
        return readEndpointId({ url, token }, cli.stopping);
      throw error;
    });
  } catch (error) {
    if (!(error instanceof HostError)) throw error;
    if (error.status === 401)
      throw new StartError(
        `${prefix}, but the server at ${url} requires another token: name the host's address with --url, or its token with --bearer-token-file`,
      );
    throw new StartError(
      error.code === 'unreachable'
        ? `${prefix}, but it does not listen at ${url}: name its address with --url. If it is starting, try again in a moment`
        : `${prefix}, but the server at ${url} is not a lathe host: name the host's address with --url`,
    );
  }
  const own = (await readFile(join(dataDir, 'endpoint-id'), 'utf8').catch(() => '')).trim();
  if (own !== '' && found !== own)
    throw new StartError(`${prefix}, but the host at ${url} is another one: name its address with --url`);
  return { url, token };
}

async function readEndpointId(host: HostAddress, signal: AbortSignal): Promise<string | undefined> {
  const text = await sendRequest(host, hostHints, { method: 'GET', path: '/host/v1/info', signal });
  try {
    return (JSON.parse(text) as { endpoint_id?: string } | null)?.endpoint_id;
  } catch {
    throw new HostError('not_a_host', `the response of ${host.url} is not JSON`);
  }
}

/** Token for a URL. The token of the data directory is sent to loopback addresses only. */
async function tokenFor(
  url: string,
  flags: Flags,
  { env }: ObserveCliContext,
  dataDir: string,
): Promise<string | undefined> {
  const explicitUrl = flags['bearer-token-file'];
  if (explicitUrl === undefined && env['LATHE_TOKEN']) return checkToken(env['LATHE_TOKEN'], 'LATHE_TOKEN');
  if (explicitUrl === undefined && !isLoopbackUrl(url)) return undefined;
  const file = explicitUrl ?? join(dataDir, 'bearer.token');
  try {
    return checkToken((await readFile(file, 'utf8')).trim(), file);
  } catch (error) {
    if (explicitUrl === undefined && systemCode(error) === 'ENOENT') return undefined;
    throw error instanceof UsageError ? error : toFileError(file, error);
  }
}

function checkToken(token: string, where: string): string {
  if (/^[\x21-\x7e]+$/.test(token)) return token;
  throw new UsageError([`${where} must hold one token of visible ASCII characters`]);
}

function isLoopbackUrl(url: string): boolean {
  const { hostname } = new URL(url);
  const address = hostname.replace(/^\[|\]$/g, '');
  return hostname === 'localhost' || address === '::1' || (isIP(address) === 4 && address.startsWith('127.'));
}
