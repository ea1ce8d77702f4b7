import type { WireKind } from '../providers.ts';

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

/** Tiers of a provider that have prices of their own. The default tier of every provider is none of them. */
export const serviceTiers = ['flex', 'priority'] as const;
export type ServiceTier = (typeof serviceTiers)[number];

/** Tools that a provider runs and bills by the call. */
export const hostedTools = ['web_search', 'file_search', 'code_interpreter'] as const;
export type HostedTool = (typeof hostedTools)[number];

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
  /** The tiers, other than the default one, that a request may ask for. Undefined: none. */
  readonly serviceTiers?: readonly ServiceTier[];
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
  /** Tokens of audio and images, where the provider reports them; included in `fresh`. */
  readonly audioInput?: number;
  readonly imageInput?: number;
  /** Included in `output`. */
  readonly audioOutput?: number;
  readonly imageOutput?: number;
  /** The tier that the provider reports to have used; undefined: the default one. */
  readonly tier?: ServiceTier;
  /** Calls of tools that the provider ran. */
  readonly hostedCalls?: HostedCalls;
}

export type HostedCalls = Readonly<Partial<Record<HostedTool, number>>>;

/** Whole nanodollars (1e-9 USD). */
export interface Cost {
  readonly total: bigint;
  /** Adds up to `total`. */
  readonly components: {
    readonly fresh: bigint;
    readonly cache_write: bigint;
    readonly cache_read: bigint;
    readonly output: bigint;
    /** Calls of tools that the provider ran; undefined: none. */
    readonly tools?: bigint;
    /** The attempt of a hedged request that did not answer; undefined: the request was not hedged. */
    readonly hedge?: bigint;
  };
  /** What was billed at a price of its own. The cost of tokens is part of `fresh` and `output`, that of calls of `tools`. */
  readonly lines?: readonly CostLine[];
  /** The tier whose prices apply; undefined: the default one. */
  readonly tier?: ServiceTier;
}

export interface CostLine {
  readonly item: 'audio_input' | 'image_input' | 'audio_output' | 'image_output' | HostedTool;
  /** Tokens or calls. */
  readonly quantity: number;
  /** Whole nanodollars. */
  readonly cost: bigint;
}
