import { hashOf, hashPrefix, mixBits } from './prefix-hash.ts';

/** Load limit of the preferred host, relative to the least loaded one; above it the next host of the ranking is used. */
const overload = { factor: 1.25, offset: 4 };
/** Failed health checks in a row after which a host counts as down; one may only mean that it is busy. */
const maxFailedChecks = 2;

export interface PoolHost {
  readonly baseUrl: string;
  readonly isUp: boolean;
  readonly inFlight: number;
}

interface Host {
  readonly baseUrl: string;
  readonly healthUrl: string;
  readonly hash: number;
  isUp: boolean;
  inFlight: number;
  /** Failed health checks in a row. */
  failedChecks: number;
  /** The running health check; the result of an older one is ignored. */
  checkId: symbol | undefined;
}

export interface HostPoolOptions {
  /** Whether the host with this `/health` URL is healthy. Rejects when it cannot be reached. */
  readonly checkHealth: (healthUrl: string) => Promise<boolean>;
  readonly checkIntervalMs: number;
}

/**
 * A pool of hosts that serve the same models. A prompt goes to the host that most likely has its prefix in the KV cache:
 * each prefix ranks the hosts (rendezvous hashing), and the first that is up and not overloaded is used. Adding or removing
 * a host moves only the prefixes of that host. All hosts count as up until `startChecks` or a failed request.
 */
export class HostPool {
  readonly #hosts: readonly Host[];
  readonly #checkHealth: HostPoolOptions['checkHealth'];
  readonly #checkIntervalMs: number;
  #timer: NodeJS.Timeout | undefined;

  constructor(baseUrls: readonly string[], { checkHealth, checkIntervalMs }: HostPoolOptions) {
    this.#hosts = baseUrls.map((baseUrl) => ({
      baseUrl,
      healthUrl: healthUrl(baseUrl),
      hash: hashOf(baseUrl),
      // Assumed until the first health check.
      isUp: true,
      inFlight: 0,
      failedChecks: 0,
      checkId: undefined,
    }));
    this.#checkHealth = checkHealth;
    this.#checkIntervalMs = checkIntervalMs;
  }

  get hosts(): readonly PoolHost[] {
    return this.#hosts;
  }

  /** Checks the hosts from now on. */
  startChecks(): void {
    if (this.#timer) return;
    this.#timer = setInterval(() => this.#check(), this.#checkIntervalMs).unref();
    this.#check();
  }

  stopChecks(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** Reserves a place at a host; undefined when none is up. */
  acquire(prefix: string): PoolLease | undefined {
    const isUp = this.#hosts.filter((host) => host.isUp);
    if (isUp.length === 0) return undefined;
    const lowestInFlight = Math.min(...isUp.map(({ inFlight }) => inFlight));
    const maxInFlight = lowestInFlight * overload.factor + overload.offset;
    const hash = hashPrefix(prefix);
    const ranked = isUp.map((host) => ({ host, score: mixBits(hash ^ host.hash) }));
    ranked.sort((a, b) => b.score - a.score);
    const chosen = ranked.find(({ host }) => host.inFlight < maxInFlight);
    return new HostLease(chosen?.host ?? ranked[0]!.host, this);
  }

  /** Whether any host is up, except one. */
  isAnyUp(exceptUrl?: string): boolean {
    return this.#hosts.some((host) => host.isUp && host.baseUrl !== exceptUrl);
  }

  areAllUp(): boolean {
    return this.#hosts.every(({ isUp }) => isUp);
  }

  /** Whether any host has a request. */
  isBusy(): boolean {
    return this.#hosts.some(({ inFlight }) => inFlight > 0);
  }

  check(host: Host): void {
    const checkId = Symbol();
    host.checkId = checkId;
    const onResult = (isHealthy: boolean | undefined) => {
      if (host.checkId !== checkId) return;
      host.checkId = undefined;
      host.failedChecks = isHealthy === undefined ? host.failedChecks + 1 : 0;
      if (isHealthy !== undefined) host.isUp = isHealthy;
      else if (host.failedChecks >= maxFailedChecks) host.isUp = false;
    };
    this.#checkHealth(host.healthUrl).then(onResult, () => onResult(undefined));
  }

  #check(): void {
    for (const host of this.#hosts) if (!host.checkId) this.check(host);
  }
}

export interface PoolLease {
  readonly baseUrl: string;
  /** The host cannot be reached: it gets no requests until a health check succeeds. */
  markFailed(): void;
  /** The answer's body has ended. */
  release(): void;
}

class HostLease implements PoolLease {
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

  markFailed(): void {
    this.#host.isUp = false;
    this.#pool.check(this.#host);
  }

  release(): void {
    this.#host.inFlight -= 1;
  }
}

/** The health URL of a base URL: `http://host:8080/health` for `http://host:8080/v1`. */
function healthUrl(baseUrl: string): string {
  const url = new URL(baseUrl);
  url.pathname = url.pathname.replace(/\/+$/, '').replace(/[^/]*$/, 'health');
  return url.href;
}
