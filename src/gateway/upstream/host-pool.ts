/** Load limit of the preferred host, relative to the least loaded one; above it the next host of the ranking is used. */
const slack = { factor: 1.25, more: 4 };
/** Failed health checks in a row after which a host counts as down; one may only mean that it is busy. */
const mostMisses = 2;
/** Length of the prompt prefix that selects a host, in UTF-16 units. It stays the same while a conversation grows. */
const prefixLength = 1024;

export interface PoolHost {
  readonly baseUrl: string;
  readonly up: boolean;
  readonly inFlight: number;
}

interface Host {
  readonly baseUrl: string;
  readonly healthUrl: string;
  readonly hash: number;
  up: boolean;
  inFlight: number;
  /** Failed health checks in a row. */
  misses: number;
  /** The running health check; the result of an older one is ignored. */
  look: symbol | undefined;
}

export interface HostPoolOptions {
  /** Whether the host with this `/health` URL is healthy. Rejects when it cannot be reached. */
  readonly probe: (healthUrl: string) => Promise<boolean>;
  readonly everyMs: number;
}

/**
 * A pool of hosts that serve the same models. A prompt goes to the host that most likely has its prefix in the KV cache:
 * each prefix ranks the hosts (rendezvous hashing), and the first that is up and not overloaded is used. Adding or removing
 * a host moves only the prefixes of that host.
 */
export class HostPool {
  readonly #hosts: readonly Host[];
  readonly #probe: HostPoolOptions['probe'];
  readonly #timer: NodeJS.Timeout;

  constructor(baseUrls: readonly string[], { probe, everyMs }: HostPoolOptions) {
    this.#hosts = baseUrls.map((baseUrl) => ({
      baseUrl,
      healthUrl: healthUrl(baseUrl),
      hash: hashOf(baseUrl),
      // Assumed until the first health check.
      up: true,
      inFlight: 0,
      misses: 0,
      look: undefined,
    }));
    this.#probe = probe;
    this.#timer = setInterval(() => this.#look(), everyMs).unref();
    this.#look();
  }

  get hosts(): readonly PoolHost[] {
    return this.#hosts;
  }

  /** Reserves a place at a host; undefined when none is up. */
  enter(prefix: string): PoolPlace | undefined {
    const up = this.#hosts.filter((host) => host.up);
    if (up.length === 0) return undefined;
    const least = Math.min(...up.map(({ inFlight }) => inFlight));
    const most = least * slack.factor + slack.more;
    const hash = hashOf(prefix.slice(0, prefixLength));
    const ranked = up.map((host) => ({ host, score: mixed(hash ^ host.hash) }));
    ranked.sort((a, b) => b.score - a.score);
    const chosen = ranked.find(({ host }) => host.inFlight < most);
    return new Place(chosen?.host ?? ranked[0]!.host, this);
  }

  /** Whether any host is up, except one. */
  anyUp(but?: string): boolean {
    return this.#hosts.some((host) => host.up && host.baseUrl !== but);
  }

  look(host: Host): void {
    const look = Symbol();
    host.look = look;
    const told = (well: boolean | undefined) => {
      if (host.look !== look) return;
      host.look = undefined;
      host.misses = well === undefined ? host.misses + 1 : 0;
      if (well !== undefined) host.up = well;
      else if (host.misses >= mostMisses) host.up = false;
    };
    this.#probe(host.healthUrl).then(told, () => told(undefined));
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #look(): void {
    for (const host of this.#hosts) if (!host.look) this.look(host);
  }
}

export interface PoolPlace {
  readonly baseUrl: string;
  /** The host cannot be reached: it gets no requests until a health check succeeds. */
  failed(): void;
  /** The answer's body has ended. */
  leave(): void;
}

class Place implements PoolPlace {
  readonly #host: Host;
  readonly #pool: HostPool;

  constructor(host: Host, pool: HostPool) {
    this.#host = host;
    this.#pool = pool;
    host.inFlight += 1;
  }

  get baseUrl(): string {
    return this.#host.baseUrl;
  }

  failed(): void {
    this.#host.up = false;
    this.#pool.look(this.#host);
  }

  leave(): void {
    this.#host.inFlight -= 1;
  }
}

/** The health URL of a base URL: `http://host:8080/health` for `http://host:8080/v1`. */
function healthUrl(baseUrl: string): string {
  const url = new URL(baseUrl);
  url.pathname = url.pathname.replace(/\/+$/, '').replace(/[^/]*$/, 'health');
  return url.href;
}

/** FNV-1a over UTF-16 units. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return hash;
}

/** Mixes a hash so that similar inputs differ in all 32 bits. */
function mixed(hash: number): number {
  let mix = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  mix = Math.imul(mix ^ (mix >>> 13), 0xc2b2ae35);
  return (mix ^ (mix >>> 16)) >>> 0;
}
