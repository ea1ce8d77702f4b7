import http from 'node:http';
import https from 'node:https';
import { isIP, type LookupFunction } from 'node:net';
import { type Address, respondToLookup, type ResolveHost } from '../../../addresses/resolve.ts';
import { raceAbort } from '../../../util/race-abort.ts';
import { systemErrorCode, escapeLine, Refusal } from '../refusal.ts';
import { readText, type TextLimits } from './read-text.ts';
import { allowedAddresses, toTarget } from './hosts.ts';

export interface FetchLimits extends TextLimits {
  /** Timeout of the whole request: name resolution, redirects and body. */
  readonly timeoutMs: number;
  readonly maxRedirects: number;
}

export interface Fetched {
  readonly status: number;
  readonly reason: string;
  readonly url: string;
  readonly type: string;
  readonly text: string;
  readonly truncated: boolean;
}

interface FetchRequest {
  readonly url: string;
  /** `grants.network`. */
  readonly grants: readonly string[];
  readonly resolve: ResolveHost;
  readonly limits: FetchLimits;
  readonly signal: AbortSignal;
}

/**
 * Fetches a text with GET. Before each hop, its host is checked against the grants, and its resolved addresses against
 * the addresses that the grant allows. The connection goes only to these addresses.
 * @throws Refusal
 */
export async function fetchText({
  url: startUrl,
  grants,
  resolve,
  limits,
  signal,
}: FetchRequest): Promise<Fetched> {
  const timeout = AbortSignal.timeout(limits.timeoutMs);
  const combinedSignal = AbortSignal.any([signal, timeout]);
  try {
    let url = parseTarget(startUrl);
    for (let hops = 0; ; hops += 1) {
      const addresses = await checkAddresses(url, grants, resolve, combinedSignal);
      const response = await sendRequest(url, addresses, combinedSignal);
      const { statusCode: status = 0, headers } = response;
      if (![301, 302, 303, 307, 308].includes(status) || headers.location === undefined) {
        try {
          return {
            status,
            reason: escapeLine(response.statusMessage ?? ''),
            url: url.href,
            type: escapeLine(headers['content-type'] ?? ''),
            ...(await readText(response, limits)),
          };
        } finally {
          response.destroy();
        }
      }
      response.destroy();
      if (hops === limits.maxRedirects)
        throw new Refusal(`${escapeLine(startUrl)} redirects more than ${limits.maxRedirects} times.`);
      url = parseTarget(headers.location, url);
    }
  } catch (error) {
    signal.throwIfAborted();
    if (timeout.aborted)
      throw new Refusal(`${escapeLine(startUrl)} did not answer whole within ${limits.timeoutMs / 1000} s.`, {
        cause: error,
      });
    if (error instanceof Refusal || systemErrorCode(error) === undefined) throw error;
    throw new Refusal(`${escapeLine(startUrl)} cannot be fetched: ${systemErrorCode(error)}.`, {
      cause: error,
    });
  }
}

/** @param base the redirecting URL */
function parseTarget(text: string, base?: URL): URL {
  const shown = escapeLine(text.slice(0, 200));
  const label = base ? `The redirect of ${base.origin}` : 'url';
  if (!URL.canParse(text, base)) throw new Refusal(`${label}: expected an absolute URL, got '${shown}'.`);
  const url = new URL(text, base);
  if (url.protocol !== 'http:' && url.protocol !== 'https:')
    throw new Refusal(`${label}: only http and https are fetched, not '${url.protocol}'.`);
  if (url.username !== '' || url.password !== '')
    throw new Refusal(`${label}: a URL with a user name or a password in it is not fetched.`);
  url.hash = '';
  return url;
}

async function checkAddresses(
  url: URL,
  grants: readonly string[],
  resolve: ResolveHost,
  signal: AbortSignal,
): Promise<readonly Address[]> {
  const target = toTarget(url);
  const allowed = allowedAddresses(grants, target);
  if (!allowed)
    throw new Refusal(
      `${url.host} is no host that this agent was granted; its grants for the network name none that fits.`,
    );
  const family = isIP(target.host);
  const addresses =
    family === 0 ? await resolveHost(target.host, resolve, signal) : [{ address: target.host, family }];
  // One forbidden address refuses the host: DNS rebinding uses such a name to reach a private machine.
  if (addresses.length === 0 || !addresses.every(({ address }) => allowed(address)))
    throw new Refusal(
      `${url.host} leads to an address that is not on the public internet; a grant must name such an address itself.`,
    );
  return addresses;
}

async function resolveHost(
  host: string,
  resolve: ResolveHost,
  signal: AbortSignal,
): Promise<readonly Address[]> {
  // Name resolution cannot be aborted; after the signal its result is ignored.
  return await raceAbort(resolve(host), signal);
}

function sendRequest(
  url: URL,
  addresses: readonly Address[],
  signal: AbortSignal,
): Promise<http.IncomingMessage> {
  const pinnedLookup: LookupFunction = (_host, options, done) => respondToLookup(addresses, options, done);
  const { get, Agent } = url.protocol === 'https:' ? https : http;
  return new Promise((resolve, reject) => {
    const clientRequest = get(
      url,
      {
        // A new agent: no reused connection, and no proxy from the environment.
        agent: new Agent({ keepAlive: false }),
        lookup: pinnedLookup,
        signal,
        maxHeaderSize: 32 * 1024,
        headers: {
          accept: 'text/*, application/json;q=0.9, */*;q=0.1',
          'accept-encoding': 'gzip, deflate, br',
          'user-agent': 'lathe',
        },
      },
      resolve,
    );
    clientRequest.on('error', reject);
    clientRequest.on('upgrade', (_answer, socket) => socket.destroy(new Error('upgraded')));
  });
}
