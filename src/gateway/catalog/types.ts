/** What an upstream speaks. `lathe` is our own host: OpenAI's chat wire, several base URLs form a pool. */
export type WireKind = 'openai-chat' | 'openai-responses' | 'anthropic-messages' | 'google' | 'lathe';

/** What a model can do. */
export const caps = [
  'chat',
  'tools',
  'images',
  'reasoning',
  'structured_output',
  'completions',
  'embeddings',
  'caching',
] as const;
export type Cap = (typeof caps)[number];

export type Effort = 'none' | 'minimal' | 'low' | 'medium' | 'high' | 'xhigh' | 'max';

export interface Provider {
  readonly id: string;
  readonly wire: WireKind;
  /** Without a slash at the end; several only for `lathe`. Empty for `local`, which is reached in this process. */
  readonly baseUrls: readonly string[];
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

export interface Model {
  /** As callers name it. */
  readonly id: string;
  readonly provider: Provider;
  /** As the provider names it. */
  readonly upstream: string;
  /** `openai`, `anthropic`, `google`, `mistral`...; the messages wire serves `anthropic` only. */
  readonly family: string;
  readonly caps: ReadonlySet<Cap>;
  /** Input and output together, in tokens. */
  readonly contextWindow: number;
  readonly maxOutputTokens: number;
  readonly price: Price;
  readonly pricing: Pricing;
  readonly displayName: string;
  readonly embeddingDimensions: number | undefined;
  /**
   * The levels of effort that the model knows, least first. Empty: none; it takes a budget of tokens, or nothing of the kind.
   * Undefined: the configuration does not say; on OpenAI's wires the usual ones are assumed, elsewhere a budget.
   */
  readonly efforts: readonly Effort[] | undefined;
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

/** Why the model that answers is the one. */
export type ReceiptReason = 'as_requested' | 'routed' | 'provider_failover';

/** Tokens of one answer. The four kinds of input add up to the whole input; `reasoning` is within `output`. */
export interface Usage {
  /** Input at the full price. */
  readonly fresh: number;
  readonly cacheWrite: number;
  /** Of the writes, those that live an hour. Not within `cacheWrite`. */
  readonly cacheWrite1h: number;
  readonly cacheRead: number;
  readonly output: number;
  readonly reasoning?: number;
}

/** Whole nanodollars (1e-9 USD). */
export interface Cost {
  readonly total: bigint;
  /** Adds up to `total`. */
  readonly components: {
    readonly fresh: bigint;
    readonly cache_write: bigint;
    readonly cache_read: bigint;
    readonly output: bigint;
  };
}
