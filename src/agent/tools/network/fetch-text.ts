import http from 'node:http';
import https from 'node:https';
import { isIP, type LookupFunction } from 'node:net';
import { type Address, answerLookup, type Resolve } from '../../../addresses/resolve.ts';
import { unlessAborted } from '../../../util/abort.ts';
import { codeOf, onOneLine, Refusal } from '../refusal.ts';
import { readText, type TextLimits } from './read-text.ts';
import { allowedAddresses, targetOf } from './hosts.ts';

export interface FetchLimits extends TextLimits {
  /** Timeout of the whole request: name resolution, redirects and body. */
  readonly timeoutMs: number;
  readonly mostRedirects: number;
}

export interface Fetched {
  readonly status: number;
  readonly reason: string;
  readonly url: string;
  readonly type: string;
  readonly text: string;
  readonly truncated: boolean;
}

interface Asked {
  readonly url: string;
  /** `grants.network`. */
  readonly grants: readonly string[];
  readonly resolve: Resolve;
  readonly limits: FetchLimits;
  readonly signal: AbortSignal;
}

/**
 * Fetches a text with GET. Before each hop, its host is checked against the grants, and its resolved addresses against
 * the addresses that the grant allows. The connection goes only to these addresses.
 * @throws Refusal
 */
export async function fetchText({ url: first, grants, resolve, limits, signal }: Asked): Promise<Fetched> {
  const timeout = AbortSignal.timeout(limits.timeoutMs);
  const both = AbortSignal.any([signal, timeout]);
  try {
    let url = parsed(first);
    for (let hops = 0; ; hops += 1) {
      const addresses = await vetted(url, grants, resolve, both);
      const answer = await request(url, addresses, both);
      const { statusCode: status = 0, headers } = answer;
      if (![301, 302, 303, 307, 308].includes(status) || headers.location === undefined) {
        try {
          return {
            status,
            reason: onOneLine(answer.statusMessage ?? ''),
            url: url.href,
            type: onOneLine(headers['content-type'] ?? ''),
            ...(await readText(answer, limits)),
          };
        } finally {
          answer.destroy();
        }
      }
      answer.destroy();
      if (hops === limits.mostRedirects)
        throw new Refusal(`${onOneLine(first)} redirects more than ${limits.mostRedirects} times.`);
      url = parsed(headers.location, url);
    }
  } catch (error) {
    signal.throwIfAborted();
    if (timeout.aborted)
      throw new Refusal(
        `${onOneLine(first)} did not answer whole within ${limits.timeoutMs / 1000} seconds.`,
        {
          cause: error,
        },
      );
    if (error instanceof Refusal || codeOf(error) === undefined) throw error;
    throw new Refusal(`${onOneLine(first)} cannot be fetched: ${codeOf(error)}.`, { cause: error });
  }
}

/** @param base the redirecting URL */
function parsed(text: string, base?: URL): URL {
  const shown = onOneLine(text.slice(0, 200));
  const what = base ? `The redirect of ${base.origin}` : 'url';
  if (!URL.canParse(text, base)) throw new Refusal(`${what}: expected an absolute URL, got '${shown}'.`);
  const url = new URL(text, base);
  if (url.protocol !== 'http:' && url.protocol !== 'https:')
    throw new Refusal(`${what}: only http and https are fetched, not '${url.protocol}'.`);
  if (url.username !== '' || url.password !== '')
    throw new Refusal(`${what}: a URL with a user name or a password in it is not fetched.`);
  url.hash = '';
  return url;
}

async function vetted(
  url: URL,
  grants: readonly string[],
  resolve: Resolve,
  signal: AbortSignal,
): Promise<readonly Address[]> {
  const target = targetOf(url);
  const allowed = allowedAddresses(grants, target);
  if (!allowed)
    throw new Refusal(
      `${url.host} is no host that this agent was granted; its grants for the network name none that fits.`,
    );
  const family = isIP(target.host);
  const addresses =
    family === 0 ? await named(target.host, resolve, signal) : [{ address: target.host, family }];
  // One forbidden address refuses the host: DNS rebinding uses such a name to reach a private machine.
  if (addresses.length === 0 || !addresses.every(({ address }) => allowed(address)))
    throw new Refusal(
      `${url.host} leads to an address that is not on the public internet; a grant must name such an address itself.`,
    );
  return addresses;
}

async function named(host: string, resolve: Resolve, signal: AbortSignal): Promise<readonly Address[]> {
  // Name resolution cannot be aborted; after the signal its result is ignored.
  return await unlessAborted(resolve(host), signal);
}

function request(
  url: URL,
  addresses: readonly Address[],
  signal: AbortSignal,
): Promise<http.IncomingMessage> {
  const pinned: LookupFunction = (_host, options, done) => answerLookup(addresses, options, done);
  const { get, Agent } = url.protocol === 'https:' ? https : http;
  return new Promise((resolve, reject) => {
    const asked = get(
      url,
      {
        // A new agent: no reused connection, and no proxy from the environment.
        agent: new Agent({ keepAlive: false }),
        lookup: pinned,
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
    asked.on('error', reject);
    asked.on('upgrade', (_answer, socket) => socket.destroy(new Error('upgraded')));
  });
}
