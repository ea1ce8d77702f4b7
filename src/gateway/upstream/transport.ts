import { type Resolve, systemResolve } from '../../addresses/resolve.ts';
import type { Backend } from '../../wires/core/backend.ts';
import type { Provider } from '../catalog/types.ts';
import type { ByokProvider } from '../config/types.ts';
import { Connections } from './connections.ts';
import { providerHeaders } from './credential-headers.ts';
import { type Destination, destinationOf, nameOf } from './destination.ts';
import { ask, type ExchangeContext } from './exchange.ts';
import { ofOneHost, ProviderFaults } from './faults.ts';
import { HostPool } from './host-pool.ts';
import { askLocally } from './local.ts';
import type { Sending, Transport, UpstreamReply } from './types.ts';
import { AddressRefused } from './vetting.ts';
import { vettedGet } from './vetted-get.ts';

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

const usualLimits: TransportLimits = {
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
  /** The configured providers of callers' own credentials. */
  readonly byok?: readonly ByokProvider[];
  /** Answers for the provider `local`. */
  readonly local?: Backend;
  readonly resolve?: Resolve;
}

export class UndiciTransport implements Transport {
  readonly #limits: TransportLimits;
  readonly #byok: ReadonlyMap<string, ByokProvider>;
  readonly #local: Backend | undefined;
  readonly #resolve: Resolve;
  readonly #connections: Connections;
  readonly #pools = new Map<string, HostPool>();
  /** Destinations of the operator's providers, which never change. */
  readonly #houses = new WeakMap<Provider, Destination>();

  constructor({ limits = {}, byok = [], local, resolve = systemResolve }: TransportOptions = {}) {
    this.#limits = { ...usualLimits, ...limits };
    this.#byok = new Map(byok.map((provider) => [provider.id, provider]));
    this.#local = local;
    this.#resolve = resolve;
    this.#connections = new Connections({ resolve, connectMs: this.#limits.connectMs });
  }

  async send(sending: Sending): Promise<UpstreamReply> {
    const faults = new ProviderFaults(nameOf(sending.candidate));
    sending.signal.throwIfAborted();
    const to = this.#destination(sending, faults);
    if (to.kind === 'hosts') return await this.#askPool(sending, to.provider);
    const context = this.#context(sending, faults, () => undefined);
    if (to.kind === 'url') return await this.#askAt(sending, to, context);
    if (!this.#local) throw faults.unusable('there is no resident model in this process.');
    return await askLocally(this.#local, sending, context);
  }

  async close(): Promise<void> {
    for (const pool of this.#pools.values()) pool.close();
    await this.#connections.close();
  }

  #destination({ candidate }: Sending, faults: ProviderFaults): Destination {
    const { credential, model } = candidate;
    const known = credential.kind === 'house' ? this.#houses.get(model.provider) : undefined;
    if (known) return known;
    try {
      const to = destinationOf(candidate, this.#byok);
      if (credential.kind === 'house') this.#houses.set(model.provider, to);
      return to;
    } catch (error) {
      if (!(error instanceof AddressRefused)) throw error;
      throw faults.unusable(`its base URL is not allowed. ${error.message}`, error);
    }
  }

  #context(
    { stream, signal }: Sending,
    faults: ProviderFaults,
    settled: ExchangeContext['settled'],
  ): ExchangeContext {
    const { bufferedMs, streamMs, streamIdleMs, maxAnswerBytes, maxEventChars } = this.#limits;
    const times = stream
      ? { totalMs: streamMs, idleMs: streamIdleMs }
      : { totalMs: bufferedMs, idleMs: bufferedMs };
    return { limits: { ...times, maxAnswerBytes, maxEventChars }, faults, signal, settled };
  }

  #askAt(
    sending: Sending,
    { mode, base, cloudResource }: Extract<Destination, { kind: 'url' }>,
    context: ExchangeContext,
  ): Promise<UpstreamReply> {
    const { path, text } = sending.body;
    const below = base.pathname === '/' ? '' : base.pathname;
    return ask(
      this.#connections.of(mode),
      {
        origin: base.origin,
        path: below + path,
        method: 'POST',
        headers: headersOf(sending, cloudResource),
        body: text,
      },
      context,
    );
  }

  /** Sends to one host of a pool. A failure of one host is not a failure of the provider: a retry uses another host. */
  async #askPool(sending: Sending, provider: Provider): Promise<UpstreamReply> {
    const pool = this.#poolOf(provider);
    const place = pool.enter(sending.prefix);
    if (!place) throw new ProviderFaults(provider.id).allDown();
    const faults = new ProviderFaults(provider.id, (failure) => {
      place.failed();
      return pool.anyUp() ? ofOneHost(failure) : failure;
    });
    const context = this.#context(sending, faults, () => place.leave());
    const at = { mode: 'house', base: new URL(place.baseUrl), cloudResource: false } as const;
    const reply = await this.#askAt(sending, { kind: 'url', ...at }, context);
    if (![502, 503].includes(reply.status) || !pool.anyUp(place.baseUrl)) return reply;
    // The host is starting, stopping or overloaded.
    reply.cut();
    throw faults.refused(reply.status);
  }

  #poolOf(provider: Provider): HostPool {
    const key = `${provider.id} ${provider.baseUrls.join(' ')}`;
    const known = this.#pools.get(key);
    if (known) return known;
    const { healthMs } = this.#limits;
    const pool = new HostPool(provider.baseUrls, {
      everyMs: healthMs,
      probe: async (url) => {
        const { status } = await vettedGet(url, {
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
    return pool;
  }
}

function headersOf(
  { candidate, body, stream, traceparent }: Sending,
  cloudResource: boolean,
): Record<string, string> {
  const { model, credential } = candidate;
  return providerHeaders(
    model.provider.wire,
    { apiKey: credential.apiKey, cloudResource },
    {
      accept: stream ? 'text/event-stream' : 'application/json',
      'content-type': 'application/json',
      ...body.headers,
      ...(traceparent === undefined ? {} : { traceparent }),
    },
  );
}
