/**
 * Protocol of an upstream. `lathe` is another host of this project: OpenAI's chat wire, where several base URLs form a
 * pool.
 */
export type WireKind = 'openai-chat' | 'openai-responses' | 'anthropic-messages' | 'google' | 'lathe';

/** Capabilities of a model. */
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

/** A provider and its protocol. */
export interface UpstreamProvider {
  readonly id: string;
  readonly wire: WireKind;
  /** Without a trailing slash; several only for `lathe`. Empty for `local`, which is called in this process. */
  readonly baseUrls: readonly string[];
}

/** What a wire needs to know about the model that it addresses. */
export interface UpstreamModel {
  /** Id that callers use. */
  readonly id: string;
  readonly provider: UpstreamProvider;
  /** Id at the provider. */
  readonly upstream: string;
  /** `openai`, `anthropic`, `google`, `mistral`...; the messages wire serves `anthropic` only. */
  readonly family: string;
  readonly caps: ReadonlySet<Cap>;
  /** Input and output together, in tokens. */
  readonly contextWindow: number;
  readonly maxOutputTokens: number;
  readonly embeddingDimensions: number | undefined;
  /**
   * Reasoning effort levels of the model, in ascending order. Empty: the model takes a token budget, or has no
   * reasoning setting. Undefined: not configured; OpenAI's wires assume the usual levels, other wires use a budget.
   */
  readonly efforts: readonly Effort[] | undefined;
}

/** Why this model answered. */
export type ReceiptReason = 'as_requested' | 'routed' | 'provider_failover' | 'cached';

/**
 * Token counts of an answer. The four kinds of input add up to the whole input; `reasoning` is included in `output`.
 */
export interface Usage {
  /** Input tokens at the full price. */
  readonly fresh: number;
  readonly cacheWrite: number;
  /** Cache writes with a lifetime of one hour; not included in `cacheWrite`. */
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
