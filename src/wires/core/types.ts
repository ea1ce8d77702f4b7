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

/** Who serves a model, and in which wire. */
export interface UpstreamProvider {
  readonly id: string;
  readonly wire: WireKind;
  /** Without a slash at the end; several only for `lathe`. Empty for `local`, which is reached in this process. */
  readonly baseUrls: readonly string[];
}

/** What a client codec has to know of the model that it asks. */
export interface UpstreamModel {
  /** As callers name it. */
  readonly id: string;
  readonly provider: UpstreamProvider;
  /** As the provider names it. */
  readonly upstream: string;
  /** `openai`, `anthropic`, `google`, `mistral`...; the messages wire serves `anthropic` only. */
  readonly family: string;
  readonly caps: ReadonlySet<Cap>;
  /** Input and output together, in tokens. */
  readonly contextWindow: number;
  readonly maxOutputTokens: number;
  readonly embeddingDimensions: number | undefined;
  /**
   * The levels of effort that the model knows, least first. Empty: none; it takes a budget of tokens, or nothing of the kind.
   * Undefined: the configuration does not say; on OpenAI's wires the usual ones are assumed, elsewhere a budget.
   */
  readonly efforts: readonly Effort[] | undefined;
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
