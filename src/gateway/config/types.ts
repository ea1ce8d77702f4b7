import type { CacheBounds } from '../cache/types.ts';
import type { Hook } from '../hooks/types.ts';
import type { Model, Provider } from '../catalog/types.ts';
import type { WireKind } from '../../wires/providers.ts';

/** The validated content of `gateway.toml`. */
export interface GatewayConfig {
  readonly providers: readonly Provider[];
  readonly models: readonly Model[];
  /** Alias names such as `auto` and `default`, to model ids. */
  readonly aliases: ReadonlyMap<string, string>;
  /** Fallbacks of a model, in order of preference; at most three. */
  readonly fallbacks: ReadonlyMap<string, readonly string[]>;
  readonly byok: readonly ByokProvider[];
  readonly limits: Limits;
  /** Whether /v1/messages serves models of all providers; otherwise those of its own wire only. */
  readonly messagesForEveryModel?: boolean | undefined;
  /** Bounds of the cache of answers; undefined: nothing is cached. Models say how their answers are cached. */
  readonly cache?: CacheBounds | undefined;
  /** Where notices of budgets are posted, and the key that signs them. */
  readonly webhook?: { readonly url: string; readonly key: Buffer } | undefined;
  /** Checks of requests and answers, in their order. */
  readonly hooks?: readonly Hook[] | undefined;
  /** Encrypt provider credentials. The first key encrypts new ones; the others only decrypt older ones. */
  readonly masterKeys: readonly { readonly id: string /** 32 bytes. */; readonly key: Buffer }[];
}

/** A provider for which callers may store their own credential. */
export interface ByokProvider {
  readonly id: string;
  readonly wire: WireKind;
  /** Undefined: the caller gives the URL of a resource, below one of `hostSuffixes`. */
  readonly baseUrl: string | undefined;
  /** Host suffixes such as `.openai.azure.com`; for the cloud resource provider. */
  readonly hostSuffixes: readonly string[];
  /** Appended to the URL of a resource, such as `/openai/v1`. */
  readonly basePath: string;
}

export interface Limits {
  /** Concurrent requests of one key. */
  readonly concurrency: number;
  /** Requests of one key. */
  readonly requestsPerMinute: number;
  /** Input and output tokens of one key; undefined: no limit. */
  readonly tokensPerMinute?: number | undefined;
  /** Whether the limits count over all gateways of a database, not in each. */
  readonly shared: boolean;
  readonly maxBodyBytes: number;
  /** Retries of one candidate after the first attempt. */
  readonly retries: number;
  /** Failed requests of several keys that open the breaker of a model, and how long it stays open. */
  readonly breakerFailures: number;
  readonly breakerSecs: number;
  /** How long an answer is read for its usage after the caller disconnected: in total, and without a new frame. */
  readonly drainSecs: number;
  readonly drainIdleSecs: number;
}
