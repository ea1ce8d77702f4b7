import type { UpstreamModel, UpstreamProvider } from '../../wires/core/types.ts';

export interface Provider extends UpstreamProvider {
  /** The house's own key. Never shown. */
  readonly apiKey: string | undefined;
  /** `byok`: reached with the caller's credential only. */
  readonly access: 'house' | 'byok';
}

/** Integer picodollars (1e-12 USD) a token. */
export interface Price {
  readonly input: bigint;
  readonly output: bigint;
  readonly cacheRead: bigint;
  /** Of a write that lives five minutes. */
  readonly cacheWrite: bigint;
  /** Of a write that lives an hour; as `cacheWrite` where not said. */
  readonly cacheWrite1h: bigint;
  /** What counts instead when the whole input has more tokens than `over`. */
  readonly longContext?: { readonly over: number; readonly price: Price };
  /** `sha256:` of the canonical JSON of the rate card. */
  readonly identity: string;
}

/** As the catalog shows it: decimal strings, US dollars a million tokens. */
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

/** What serves a request: a model and the credential that pays for it. */
export interface Candidate {
  readonly model: Model;
  /** `byok`: the caller's own; it costs the caller nothing here. */
  readonly credential:
    | { readonly kind: 'house'; readonly apiKey: string | undefined }
    | {
        readonly kind: 'byok';
        readonly provider: string;
        readonly apiKey: string;
        readonly baseUrl?: string;
      };
}
