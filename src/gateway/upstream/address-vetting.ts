import { isIP, type LookupFunction } from 'node:net';
import { buildConnector } from 'undici';
import { isPrivate, isPublic } from '../../addresses/address-ranges.ts';
import { type Address, respondToLookup, type ResolveHost } from '../../addresses/resolve.ts';

/**
 * Which addresses a URL may lead to, depending on who wrote it.
 * - `house`: the operator, in the configuration: any address.
 * - `public`: a caller, over HTTP: https to a cloud resource below one of the provider's host names.
 * - `registered`: the operator, on the command line, for an account: https to public addresses, plain http to loopback and
 *   private addresses.
 */
export type AddressMode = 'house' | 'public' | 'registered';

/** A URL that is not allowed. The message calls it 'it' and repeats no part of it. */
export class AddressRefusedError extends Error {}

export interface UrlRules {
  readonly mode: AddressMode;
  /** Allowed host suffixes of mode `public`, such as `.openai.azure.com`. */
  readonly hostSuffixes?: readonly string[];
}

/**
 * Checks the text of a URL. The addresses of its host name are checked for every connection (`createVettedConnector`).
 * @throws AddressRefusedError
 */
export function vetUrl(text: string, { mode, hostSuffixes = [] }: UrlRules): URL {
  if (!URL.canParse(text))
    throw new AddressRefusedError('It is not an absolute URL; write https://host/path.');
  const url = new URL(text);
  if (mode === 'public' && url.protocol !== 'https:')
    throw new AddressRefusedError('It must begin with https://.');
  if (url.protocol !== 'https:' && url.protocol !== 'http:')
    throw new AddressRefusedError('It must begin with https:// or http://.');
  if (mode === 'house') return url;
  if (url.username !== '' || url.password !== '')
    throw new AddressRefusedError('It must hold no user name and no password.');
  const host = url.hostname.replace(/^\[|\]$/g, '');
  if (isIP(host) !== 0)
    vetAddresses([{ address: host, family: isIP(host) }], addressRuleFor(mode, url.protocol));
  if (mode === 'registered') return url;
  if (url.port !== '') throw new AddressRefusedError('It must not name a port.');
  if (!hostSuffixes.some((suffix) => isSubdomainOf(host, suffix)))
    throw new AddressRefusedError(`Its host must end in ${hostSuffixes.join(' or ')}.`);
  return url;
}

/**
 * Checks a base URL in the same way. The result has no trailing slash; that of a cloud resource ends in `basePath`.
 * @param basePath path below a cloud resource, such as `/openai/v1`; for mode `public`
 * @throws AddressRefusedError
 */
export function vetBaseUrl(text: string, { basePath = '', ...rules }: UrlRules & { basePath?: string }): URL {
  const url = vetUrl(text, rules);
  if (url.search !== '' || url.hash !== '')
    throw new AddressRefusedError('It must have neither a query nor a fragment.');
  const path = url.pathname.replace(/\/+$/, '');
  if (rules.mode !== 'public') {
    url.pathname = path;
    return url;
  }
  if (path !== '' && path !== basePath)
    throw new AddressRefusedError(`It must have no path${basePath === '' ? '' : `, or ${basePath}`}.`);
  url.pathname = basePath;
  return url;
}

/** Whether a host is a subdomain of the suffix. */
function isSubdomainOf(host: string, suffix: string): boolean {
  const dotted = suffix.startsWith('.') ? suffix : `.${suffix}`;
  return host.length > dotted.length && !host.startsWith('.') && host.endsWith(dotted.toLowerCase());
}

interface AddressRule {
  readonly isAllowed: (address: string) => boolean;
  readonly refusal: string;
}

function addressRuleFor(mode: AddressMode, protocol: string): AddressRule {
  if (mode === 'house') return { isAllowed: () => true, refusal: '' };
  if (mode === 'registered' && protocol === 'http:')
    return {
      isAllowed: isPrivate,
      refusal: 'Plain http is for loopback and private addresses only; use https.',
    };
  return {
    isAllowed: isPublic,
    refusal: 'Its host has an address that is not on the public internet.',
  };
}

/** Requires every address to be allowed: one internal address among them is an SSRF attempt. @throws AddressRefusedError */
function vetAddresses(
  addresses: readonly Address[],
  { isAllowed, refusal }: AddressRule,
): readonly Address[] {
  if (addresses.length === 0 || !addresses.every(({ address }) => isAllowed(address)))
    throw new AddressRefusedError(refusal);
  return addresses;
}

const resolveVetted = async (
  host: string,
  rules: AddressRule,
  resolve: ResolveHost,
): Promise<readonly Address[]> => vetAddresses(await resolve(host), rules);

/**
 * Creates a connector that resolves and checks the addresses for every connection, and connects only to the checked ones.
 * This prevents DNS rebinding.
 */
export function createVettedConnector(
  mode: AddressMode,
  { resolve, connectMs }: { readonly resolve: ResolveHost; readonly connectMs: number },
): buildConnector.connector {
  const connectors = new Map(
    ['http:', 'https:'].map((protocol) => {
      const rules = addressRuleFor(mode, protocol);
      const lookup: LookupFunction = (host, options, callback) => {
        const onError = (error: Error) => callback(error, '');
        resolveVetted(host, rules, resolve).then(
          (addresses) => respondToLookup(addresses, options, callback),
          onError,
        );
      };
      // HTTP/1.1 only: canceling an answer closes its connection, which no other request shares.
      return [protocol, { rules, connect: buildConnector({ allowH2: false, timeout: connectMs, lookup }) }];
    }),
  );
  return (options, callback) => {
    const connector = connectors.get(options.protocol);
    if (!connector) throw new Error(`no connector for ${options.protocol}`);
    const family = isIP(options.hostname);
    try {
      // IP literals are not resolved, so `lookup` does not check them.
      if (family !== 0) vetAddresses([{ address: options.hostname, family }], connector.rules);
    } catch (error) {
      queueMicrotask(() => callback(error as Error, null));
      return;
    }
    connector.connect(options, callback);
  };
}
