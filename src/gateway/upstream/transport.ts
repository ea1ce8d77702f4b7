import { type ResolveHost, systemResolve } from '../../addresses/resolve.ts';
import type { Backend } from '../../wires/core/backend.ts';
import type { Provider } from '../catalog/types.ts';
import type { ByokProvider } from '../config/types.ts';
import { ConnectionPools } from './connection-pools.ts';
import { providerHeaders } from '../../wires/provider-headers.ts';
import { type Destination, destinationOf, providerNameOf } from './destination.ts';
import { sendRequest, type ExchangeContext } from './upstream-exchange.ts';
import { HostFailure, ProviderFailures } from './provider-failures.ts';
import { HostPool } from './host-pool.ts';
import { sendLocal } from './local-transport.ts';
import type { UpstreamRequest, Transport, UpstreamReply } from './types.ts';
import { AddressRefusedError } from './address-vetting.ts';
import { vettedStatus } from './vetted-status.ts';

export interface TransportLimits {
  /** Total time of a buffered answer. */
  readonly bufferedMs: number;
  /** Total time of a stream, and its idle limit. */
  readonly streamMs: number;
  readonly streamIdleMs: number;
  readonly connectMs: number;
  readonly maxAnswerBytes: number;
  readonly maxEventChars: number;
  /** Interval of the health checks of a pool's hosts. */
  readonly healthMs: number;
}

const healthTimeoutMs = 2000;

const defaultLimits: TransportLimits = {
  bufferedMs: 280_000,
  streamMs: 2_400_000,
  streamIdleMs: 120_000,
  connectMs: 10_000,
  maxAnswerBytes: 128 * 1024 * 1024,
  maxEventChars: 32 * 1024 * 1024,
  healthMs: 3000,
};

export interface TransportOptions {
  readonly limits?: Partial<TransportLimits>;
  /** The configured providers of callers' own credentials; read at each use, because a reload may change them. */
  readonly byok?: readonly ByokProvider[];
  /** Answers for the provider `local`. */
  readonly local?: Backend;
  readonly resolve?: ResolveHost;
}

export class UndiciTransport implements Transport {
  readonly #limits: TransportLimits;
  readonly #byok: readonly ByokProvider[];
  readonly #local: Backend | undefined;
  readonly #resolve: ResolveHost;
  readonly #connections: ConnectionPools;
  readonly #pools = new Map<string, HostPool>();
  /** Keys of `#pools` that the configuration has; undefined: it has not been replaced. */
  #configuredPools: ReadonlySet<string> | undefined;
  /** Destinations of the operator's providers, which never change. */
  readonly #operatorDestinations = new WeakMap<Provider, Destination>();

  constructor({ limits = {}, byok = [], local, resolve = systemResolve }: TransportOptions = {}) {
    this.#limits = { ...defaultLimits, ...limits };
    this.#byok = byok;
    this.#local = local;
    this.#resolve = resolve;
    this.#connections = new ConnectionPools({ resolve, connectMs: this.#limits.connectMs });
  }

  async send(request: UpstreamRequest): Promise<UpstreamReply> {
    const failures = new ProviderFailures(providerNameOf(request.candidate));
    request.signal.throwIfAborted();
    const destination = this.#destination(request, failures);
    if (destination.kind === 'hosts') return await this.#sendToPool(request, destination.provider);
    const context = this.#createContext(request, failures, () => undefined);
    if (destination.kind === 'url') return await this.#sendTo(request, destination, context);
    if (!this.#local) throw failures.unusable('there is no resident model in this process.');
    return await sendLocal(this.#local, request, context);
  }

  /**
   * Drops the pools of hosts that the configuration no longer has; where requests still use them, when these have ended. Their
   * hosts are not checked meanwhile.
   */
  retainPools(providers: readonly Provider[]): void {
    this.#configuredPools = new Set(providers.map(poolKey));
    for (const [key, pool] of this.#pools)
      if (this.#isConfigured(key)) pool.startChecks();
      else {
        pool.stopChecks();
        if (!pool.isBusy()) this.#pools.delete(key);
      }
  }

  async close(): Promise<void> {
    for (const pool of this.#pools.values()) pool.stopChecks();
    await this.#connections.close();
  }

  #destination({ candidate }: UpstreamRequest, failures: ProviderFailures): Destination {
    const { credential, model } = candidate;
    const existing = credential.kind === 'house' ? this.#operatorDestinations.get(model.provider) : undefined;
    if (existing) return existing;
    try {
      const destination = destinationOf(candidate, this.#byok);
      if (credential.kind === 'house') this.#operatorDestinations.set(model.provider, destination);
      return destination;
    } catch (error) {
      if (!(error instanceof AddressRefusedError)) throw error;
      throw failures.unusable(`its base URL is not allowed. ${error.message}`, error);
    }
  }

  #createContext(
    { stream, signal }: UpstreamRequest,
    failures: ProviderFailures,
    onEnd: ExchangeContext['onEnd'],
  ): ExchangeContext {
    const { bufferedMs, streamMs, streamIdleMs, maxAnswerBytes, maxEventChars } = this.#limits;
    const times = stream
      ? { totalMs: streamMs, idleMs: streamIdleMs }
      : { totalMs: bufferedMs, idleMs: bufferedMs };
    return { limits: { ...times, maxAnswerBytes, maxEventChars }, failures, signal, onEnd };
  }

  #sendTo(
    request: UpstreamRequest,
    { mode, base, isCloudResource }: Extract<Destination, { kind: 'url' }>,
    context: ExchangeContext,
  ): Promise<UpstreamReply> {
    const { path, text } = request.body;
    const basePath = base.pathname === '/' ? '' : base.pathname;
    return sendRequest(
      this.#connections.dispatcherFor(mode),
      {
        origin: base.origin,
        path: basePath + path,
        method: 'POST',
        headers: headersOf(request, isCloudResource),
        body: text,
      },
      context,
    );
  }

  /** Sends to one host of a pool. A failure of one host is not a failure of the provider: a retry uses another host. */
  async #sendToPool(request: UpstreamRequest, provider: Provider): Promise<UpstreamReply> {
    const pool = this.#getPool(provider);
    const slot = pool.acquire(request.prefix);
    if (!slot) throw new ProviderFailures(provider.id).allHostsDown();
    const failures = new ProviderFailures(provider.id, (failure) => {
      slot.markFailed();
      return pool.isAnyUp() ? new HostFailure(failure) : failure;
    });
    const context = this.#createContext(request, failures, () => {
      slot.release();
      // A retry has to know which hosts failed; such a pool is dropped by the next `retainPools`.
      const key = poolKey(provider);
      if (!this.#isConfigured(key) && !pool.isBusy() && pool.areAllUp()) this.#pools.delete(key);
    });
    const target = { mode: 'house', base: new URL(slot.baseUrl), isCloudResource: false } as const;
    const reply = await this.#sendTo(request, { kind: 'url', ...target }, context);
    if (![502, 503].includes(reply.status) || !pool.isAnyUp(slot.baseUrl)) return reply;
    // The host is starting, stopping or overloaded.
    const failure = failures.hostRefused(reply.status);
    reply.cut();
    throw failure;
  }

  #getPool(provider: Provider): HostPool {
    const key = poolKey(provider);
    const existing = this.#pools.get(key);
    if (existing) return existing;
    const { healthMs } = this.#limits;
    const pool = new HostPool(provider.baseUrls, {
      checkIntervalMs: healthMs,
      checkHealth: async (url) => {
        const { status } = await vettedStatus(url, {
          mode: 'house',
          name: provider.id,
          headers: {},
          timeoutMs: healthTimeoutMs,
          resolve: this.#resolve,
        });
        return status < 500;
      },
    });
    this.#pools.set(key, pool);
    if (this.#isConfigured(key)) pool.startChecks();
    return pool;
  }

  #isConfigured(key: string): boolean {
    return this.#configuredPools?.has(key) ?? true;
  }
}

const poolKey = ({ id, baseUrls }: Provider): string => `${id} ${baseUrls.join(' ')}`;

function headersOf(
  { candidate, body, stream, traceparent }: UpstreamRequest,
  isCloudResource: boolean,
): Record<string, string> {
  const { model, credential } = candidate;
  return providerHeaders(
    model.provider.wire,
    { apiKey: credential.apiKey, isCloudResource },
    {
      accept: stream ? 'text/event-stream' : 'application/json',
      'content-type': 'application/json',
      ...body.headers,
      ...(traceparent === undefined ? {} : { traceparent }),
    },
  );
}
