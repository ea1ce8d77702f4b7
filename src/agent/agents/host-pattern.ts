import { domainToASCII } from 'node:url';

/** A host name, all names below one (`*.example.com`), or every host (`*`); with a port, only that one. */
export interface HostPattern {
  readonly kind: 'exact' | 'below' | 'any';
  /** Lower case; `''` for every host. IPv6 in brackets. */
  readonly name: string;
  readonly port: number | undefined;
}

const labelPattern = /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/;

/** Parses a pattern; returns a fault when it is invalid. */
export function parseHostPattern(text: string): HostPattern | { readonly fault: string } {
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(text)) {
    const host = URL.canParse(text) ? new URL(text).host : '';
    return { fault: `expected a host name, not an address${host === '' ? '' : `: use '${host}'`}` };
  }
  const [, host = '', digits] = /^(\[[^\]]*\]|[^:]*)(?::(\d{1,5}))?$/.exec(text) ?? [];
  const port = digits === undefined ? undefined : Number(digits);
  if (host === '' || (port !== undefined && (port < 1 || port > 65_535))) return { fault: expectedMessage };
  if (host === '*') return { kind: 'any', name: '', port };
  const isWildcard = host.startsWith('*.');
  const name = (isWildcard ? host.slice(2) : host).toLowerCase();
  const canonical = toCanonicalHost(name);
  if (canonical === undefined) return { fault: expectedMessage };
  if (canonical !== name) return { fault: `${expectedMessage}: write '${name}' as '${canonical}'` };
  if (isWildcard && isAddress(name))
    return { fault: 'a numeric address has no subdomains: use it without the wildcard' };
  return { kind: isWildcard ? 'below' : 'exact', name, port };
}
const expectedMessage = "expected a host name, '*.domain' or 'host:port'";

/** Whether every host and port that `narrow` names is named by `wide`. */
export function hostCovers(wide: HostPattern, narrow: HostPattern): boolean {
  if (wide.port !== undefined && wide.port !== narrow.port) return false;
  if (wide.kind === 'exact') return narrow.kind === 'exact' && narrow.name === wide.name;
  // Wildcards do not cover localhost and IP addresses, so private ones must be named.
  if (narrow.kind === 'exact' && (isAddress(narrow.name) || isLocal(narrow.name))) return false;
  if (wide.kind === 'any') return true;
  if (narrow.kind === 'any') return false;
  return narrow.name.endsWith(`.${wide.name}`) || (narrow.kind === 'below' && narrow.name === wide.name);
}

/** The host as a URL writes it; undefined when it is not a host. */
function toCanonicalHost(name: string): string | undefined {
  const url = `http://${name}/`;
  if (name === '' || /[/?#@\\\s%]/.test(name) || !URL.canParse(url)) return undefined;
  const { hostname } = new URL(url);
  if (hostname.startsWith('[')) return hostname;
  const plain = (domainToASCII(hostname) || hostname).replace(/\.$/, '');
  return plain.length <= 253 && plain.split('.').every((one) => labelPattern.test(one)) ? plain : undefined;
}

const isLocal = (name: string) => name === 'localhost' || name.endsWith('.localhost');
const isAddress = (name: string) => name.startsWith('[') || /(?:^|\.)\d+$/.test(name);
