import { isIP } from 'node:net';
import { domainToASCII } from 'node:url';
import { isLoopback, isPublic } from '../../../addresses/address-ranges.ts';

/** Host and port of a URL, as its parser writes them: addresses in dotted decimal, names in ASCII. */
export interface UrlTarget {
  /** Lower case, without brackets and trailing dot. */
  readonly host: string;
  readonly port: number;
}

export function toTarget(url: URL): UrlTarget {
  const port = url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port);
  return { host: normalizeHost(url.hostname), port };
}

const normalizeHost = (host: string): string =>
  host
    .replace(/^\[|\]$/g, '')
    .replace(/\.$/, '')
    .toLowerCase();

/** A parsed entry of `grants.network`. */
interface HostGrant {
  readonly host: string;
  readonly port: number | undefined;
}

function parseHostGrant(entry: string): HostGrant | undefined {
  const bare = isIP(entry) === 6 ? `[${entry}]` : entry;
  const match = /^(\[[^\]]+\]|[^:[\]]+)(?::(\d{1,5}))?$/.exec(bare.trim());
  if (!match?.[1]) return undefined;
  const port = match[2] === undefined ? undefined : Number(match[2]);
  const name = normalizeHost(match[1]);
  if (name === '*' || isIP(name) !== 0) return { host: normalizeAddress(name), port };
  const wildcard = name.startsWith('*.') ? '*.' : '';
  const ascii = domainToASCII(name.slice(wildcard.length));
  return ascii === '' || ascii.includes('*') ? undefined : { host: wildcard + ascii, port };
}

/** Normalizes an IPv6 address to the form of the URL parser. */
const normalizeAddress = (host: string): string =>
  isIP(host) === 6 ? normalizeHost(new URL(`http://[${host}]`).hostname) : host;

function matchesGrant({ host, port }: HostGrant, target: UrlTarget): boolean {
  if (port !== undefined && port !== target.port) return false;
  if (host === '*') return isIP(target.host) === 0 || isPublic(target.host);
  if (host.startsWith('*.')) return isIP(target.host) === 0 && target.host.endsWith(host.slice(1));
  return host === target.host;
}

/**
 * Returns the check for a target's addresses; undefined when the target is not granted. `localhost` and addresses that
 * are not public must be named by the grant themselves.
 */
export function allowedAddresses(
  grants: readonly string[],
  target: UrlTarget,
): ((address: string) => boolean) | undefined {
  const matching = grants
    .flatMap((entry) => parseHostGrant(entry) ?? [])
    .filter((one) => matchesGrant(one, target));
  if (matching.length === 0) return undefined;
  if (isIP(target.host) !== 0)
    return matching.some(({ host }) => host === target.host)
      ? (address) => address === target.host
      : isPublic;
  const isLocal = target.host === 'localhost' || target.host.endsWith('.localhost');
  if (isLocal) return matching.some(({ host }) => host === target.host) ? isLoopback : undefined;
  return isPublic;
}
