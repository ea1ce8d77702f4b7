import { isIP } from 'node:net';
import { hostname, networkInterfaces } from 'node:os';

/** Why a request is refused. */
interface Refusal {
  readonly status: 400 | 403;
  readonly code: string;
  readonly message: string;
}

export type HostGuard = (rawHeaders: readonly string[], target: string) => Refusal | undefined;

/** Whether a host is a loopback address or `localhost`. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'));
}

/**
 * The names by which containers reach the machine that runs them. Docker Desktop and Podman forward such a request to a
 * loopback address and keep the name in the Host header. `.internal` is reserved for private networks and does not
 * resolve in public DNS, so a page cannot be served under these names and then rebound, unless the attacker also
 * answers the machine's DNS queries.
 */
const containerNames = ['host.docker.internal', 'host.containers.internal'];

/** The addresses and the name of this machine. The addresses may change while the host runs. */
const thisMachine = (): string[] => [
  hostname(),
  ...Object.values(networkInterfaces()).flatMap((addresses) =>
    (addresses ?? []).map(({ address }) => address),
  ),
];

/**
 * Creates the Host-header guard, which prevents DNS rebinding: a web page can make its own name resolve to 127.0.0.1
 * and then reads the host as its own origin, but the Host header still carries the page's name. Only known names are
 * accepted.
 * @param bound the address that the host listens on; beyond loopback the machine's own names are accepted too
 * @param allowed further names
 * @param machine returns the machine's current names
 */
export function hostGuard(bound: string, allowed: readonly string[], machine = thisMachine): HostGuard {
  const names = new Set([
    'localhost',
    '127.0.0.1',
    '[::1]',
    ...containerNames,
    toHostName(bound),
    ...allowed.map((name) => name.toLowerCase()),
  ]);
  const machineNames = isLoopback(bound) ? () => [] : machine;
  const isKnown = (name: string) =>
    names.has(name) || machineNames().some((other) => toHostName(other) === name);
  return (rawHeaders, target) => {
    const hosts = rawHeaders.filter(
      (_, index) => index % 2 === 1 && rawHeaders[index - 1]?.toLowerCase() === 'host',
    );
    const [host] = hosts;
    if (host === undefined || hosts.length > 1) {
      const what = hosts.length > 1 ? `${hosts.length} Host headers` : 'no Host header';
      return { status: 400, code: 'bad_host_header', message: `The request has ${what}; send exactly one.` };
    }
    if (!isKnown(hostName(host))) return foreignHost(host);
    // In the absolute form (`GET http://name/ HTTP/1.1`) the authority of the target is checked too.
    const authority = /^[a-z][a-z0-9+.-]*:\/\/([^/?#]*)/i.exec(target)?.[1];
    if (authority !== undefined && !isKnown(hostName(authority))) return foreignHost(authority);
    return undefined;
  };
}

const foreignHost = (host: string): Refusal => ({
  status: 403,
  code: 'foreign_host',
  message: `The Host header names '${host.slice(0, 100)}', which this host does not answer to. Use its address, or start it with --allowed-host NAME.`,
});

const toHostName = (address: string): string =>
  isIP(address) === 6 ? `[${address}]` : address.toLowerCase();

/** The name without its port, in lower case; the whole text where it is not `name[:port]`. */
function hostName(host: string): string {
  const parts = /^(\[[0-9a-f:.]+\]|[^:@/\\\s]+)(?::\d{1,5})?$/i.exec(host);
  return (parts?.[1] ?? host).toLowerCase();
}
