import type { Model, Provider } from '../catalog/types.ts';
import type { WireKind } from '../../wires/core/types.ts';

/** `gateway.toml`, read and checked. */
export interface GatewayConfig {
  readonly providers: readonly Provider[];
  readonly models: readonly Model[];
  /** `auto`, `default` and the like to ids. */
  readonly aliases: ReadonlyMap<string, string>;
  /** What else may serve a model, best first; at most three each. */
  readonly fallbacks: ReadonlyMap<string, readonly string[]>;
  readonly byok: readonly ByokProvider[];
  readonly limits: Limits;
  /** Seals providers' credentials: the first one new ones, the others only open what they once sealed. */
  readonly masterKeys: readonly { readonly id: string /** 32 bytes. */; readonly key: Buffer }[];
}

/** A provider that callers may bring their own credential for. */
export interface ByokProvider {
  readonly id: string;
  readonly wire: WireKind;
  /** Undefined: the caller names the URL of a resource, below one of `hostSuffixes`. */
  readonly baseUrl: string | undefined;
  /** As `.openai.azure.com`; for the cloud resource provider. */
  readonly hostSuffixes: readonly string[];
  /** Appended to the URL of a resource, as `/openai/v1`. */
  readonly basePath: string;
}

export interface Limits {
  /** Of one key at a time. */
  readonly concurrency: number;
  /** Of one key. */
  readonly requestsPerMinute: number;
  /** Count over all gateways of a database, not in each. */
  readonly shared: boolean;
  readonly maxBodyBytes: number;
  /** Attempts after the first, on one candidate. */
  readonly retries: number;
  /** Failed requests, of several keys, that open the breaker of a model, and how long it stays open. */
  readonly breakerFailures: number;
  readonly breakerSecs: number;
  /** After the caller went away: how long to read on for the usage, in all and without a frame. */
  readonly drainSecs: number;
  readonly drainIdleSecs: number;
}
