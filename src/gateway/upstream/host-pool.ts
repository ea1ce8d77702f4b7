/** How much more than its share of the requests in flight the host of a prefix may have before another takes over. */
const slack = { factor: 1.25, more: 4 };
/** A host that does not answer one look may only be busy. */
const mostMisses = 2;
/** Of a prompt: as much as stays the same while a conversation grows. In UTF-16 units. */
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
  /** Looks in a row that found nobody. */
  misses: number;
  /** The look at its health under way; what an older one says is out of date. */
  look: symbol | undefined;
}

export interface HostPoolOptions {
  /** Whether the host with this `/health` is well. Rejects where it cannot be reached. */
  readonly probe: (healthUrl: string) => Promise<boolean>;
  readonly everyMs: number;
}

/**
 * Hosts that serve the same models. A prompt goes to the host that is likeliest to have its beginning in the KV cache:
 * each prefix has an order of hosts of its own (rendezvous hashing), of which the first that is up and not overloaded
 * takes it. A host that comes or goes moves only its own prefixes.
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
      // Until we know better.
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

  /** Takes a place at a host; undefined where none is up. */
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

  /** Whether any host is up, but for one. */
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
  /** It cannot be reached: nobody else is sent there until its health says otherwise. */
  failed(): void;
  /** The body came to its end. */
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

/** `http://host:8080/v1` has `http://host:8080/health` beside it. */
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

/** Spreads neighbouring hashes over all 32 bits. */
function mixed(hash: number): number {
  let mix = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  mix = Math.imul(mix ^ (mix >>> 13), 0xc2b2ae35);
  return (mix ^ (mix >>> 16)) >>> 0;
}
