import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { join, resolve } from 'node:path';
import { databaseUrl, defaultDataDir } from '../cli/data-dir.ts';
import { holderOf } from '../cli/data-dir-lock.ts';
import { StartError } from '../cli/start-error.ts';
import { UsageError } from '../config/usage.ts';
import { HostError } from '../host-client/errors.ts';
import { exchange, type HostAddress } from '../host-client/http.ts';
import { fileError } from '../terminal/file-error.ts';
import { systemCode } from '../util/system-code.ts';
import type { Flags } from './arguments.ts';
import { hints, httpSource } from './http-source.ts';
import type { Source } from './source.ts';
import { stoppedSource } from './stopped-source.ts';
import type { ObserveWorld } from './world.ts';

const usualUrl = 'http://127.0.0.1:8080';

/** Opens the host that the flags name, else the host that runs on the data directory, else the directory itself. */
export async function openSource(flags: Flags, world: ObserveWorld): Promise<Source> {
  const { env, home, over } = world;
  const dataDir = resolve(flags['data-dir'] ?? defaultDataDir(env, home));
  const faults = faultsOf(flags, env);
  if (faults.length > 0) throw new UsageError(faults);
  const named =
    flags.url ??
    (flags['data-dir'] === undefined && flags.database === undefined
      ? env['LATHE_URL'] || undefined
      : undefined);
  if (named !== undefined) {
    const url = addressOf(named);
    const token = await tokenFor(url, flags, world, dataDir);
    return httpSource({ url, token }, over);
  }
  if (flags.database === undefined) {
    const holder = holderOf(dataDir);
    if (holder !== undefined) return httpSource(await hostOn(dataDir, holder, flags, world), over);
  }
  const database = flags.database ?? databaseUrl(undefined, dataDir);
  return await stoppedSource({ database, dataDir, worker: world.entry('observe-worker') });
}

function faultsOf(flags: Flags, env: ObserveWorld['env']): string[] {
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

const addressOf = (given: string): string => {
  const { origin, pathname } = new URL(given);
  return (origin + pathname).replace(/\/+$/, '');
};

/** Address of the host that runs on the data directory, if it listens at the default URL. */
async function hostOn(
  dataDir: string,
  holder: string,
  flags: Flags,
  world: ObserveWorld,
): Promise<HostAddress> {
  const url = addressOf(world.env['LATHE_URL'] || usualUrl);
  const token = await tokenFor(url, flags, world, dataDir);
  const has = `a host${holder} runs on the data directory ${dataDir}`;
  let found: string | undefined;
  try {
    found = await endpointAt({ url }, world.over).catch((error: unknown) => {
      // A host that listens on a non-loopback address requires the token.
      if (error instanceof HostError && error.status === 401) return endpointAt({ url, token }, world.over);
      throw error;
    });
  } catch (error) {
    if (!(error instanceof HostError)) throw error;
    if (error.status === 401)
      throw new StartError(
        `${has}, but the server at ${url} requires another token: name the host's address with --url, or its token with --bearer-token-file`,
      );
    throw new StartError(
      error.code === 'unreachable'
        ? `${has}, but it does not listen at ${url}: name its address with --url. If it is starting, try again in a moment`
        : `${has}, but the server at ${url} is not a lathe host: name the host's address with --url`,
    );
  }
  const own = (await readFile(join(dataDir, 'endpoint-id'), 'utf8').catch(() => '')).trim();
  if (own !== '' && found !== own)
    throw new StartError(`${has}, but the host at ${url} is another one: name its address with --url`);
  return { url, token };
}

async function endpointAt(host: HostAddress, signal: AbortSignal): Promise<string | undefined> {
  const text = await exchange(host, hints, { method: 'GET', path: '/host/v1/info', signal });
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
  { env }: ObserveWorld,
  dataDir: string,
): Promise<string | undefined> {
  const named = flags['bearer-token-file'];
  if (named === undefined && env['LATHE_TOKEN']) return checked(env['LATHE_TOKEN'], 'LATHE_TOKEN');
  if (named === undefined && !isHere(url)) return undefined;
  const file = named ?? join(dataDir, 'bearer.token');
  try {
    return checked((await readFile(file, 'utf8')).trim(), file);
  } catch (error) {
    if (named === undefined && systemCode(error) === 'ENOENT') return undefined;
    throw error instanceof UsageError ? error : fileError(file, error);
  }
}

function checked(token: string, where: string): string {
  if (/^[\x21-\x7e]+$/.test(token)) return token;
  throw new UsageError([`${where} must hold one token of visible ASCII characters`]);
}

function isHere(url: string): boolean {
  const { hostname } = new URL(url);
  const address = hostname.replace(/^\[|\]$/g, '');
  return hostname === 'localhost' || address === '::1' || (isIP(address) === 4 && address.startsWith('127.'));
}
