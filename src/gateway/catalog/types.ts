import type { UpstreamModel, UpstreamProvider } from '../../wires/core/types.ts';

export interface Provider extends UpstreamProvider {
  /** The operator's key. Never shown. */
  readonly apiKey: string | undefined;
  /** `house`: with the operator's credential. `byok`: with the caller's credential only. */
  readonly access: 'house' | 'byok';
}

/** Prices in integer picodollars (1e-12 USD) per token. */
export interface Price {
  readonly input: bigint;
  readonly output: bigint;
  readonly cacheRead: bigint;
  /** A cache write with a lifetime of five minutes. */
  readonly cacheWrite: bigint;
  /** A cache write with a lifetime of one hour. Default: `cacheWrite`. */
  readonly cacheWrite1h: bigint;
  /** Replaces these prices when the total input has more than `over` tokens. */
  readonly longContext?: { readonly over: number; readonly price: Price };
  /** `sha256:` of the canonical JSON of the rate card. */
  readonly identity: string;
}

/** Prices as the catalog shows them: decimal text in US dollars per million tokens. */
export interface Pricing {
  readonly in_usd_per_mtok: string;
  readonly out_usd_per_mtok: string;
  readonly cache_read_usd_per_mtok: string;
  readonly cache_write_usd_per_mtok: string;
}

export interface Model extends UpstreamModel {
  readonly provider: Provider;
  readonly price: Price;
  readonly pricing: Pricing;
  readonly displayName: string;
}

/** What can serve a request: a model and the credential that pays for it. */
export interface Candidate {
  readonly model: Model;
  /** `house`: the operator's. `byok`: the caller's own, free of charge here. */
  readonly credential:
    | { readonly kind: 'house'; readonly apiKey: string | undefined }
    | {
        readonly kind: 'byok';
        readonly provider: string;
        readonly apiKey: string;
        readonly baseUrl?: string;
      };
}
