import type { CachePolicy } from '../cache/types.ts';
import type { HostedTool, ServiceTier, UpstreamModel, UpstreamProvider } from '../../wires/core/types.ts';

export interface Provider extends UpstreamProvider {
  /** The operator's key. Never shown. */
  readonly apiKey: string | undefined;
  /** Where the key comes from: the name of a variable or a file of the configuration. */
  readonly apiKeySource?: { readonly kind: 'env' | 'file'; readonly name: string } | undefined;
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
  /** Tokens of audio and images. Default: `input` and `output`. */
  readonly audioInput?: bigint;
  readonly imageInput?: bigint;
  readonly audioOutput?: bigint;
  readonly imageOutput?: bigint;
  /** Replaces these prices when the total input has more than `over` tokens. */
  readonly longContext?: { readonly over: number; readonly price: Price };
  /** Replaces all rates above for a request of the tier. */
  readonly tiers?: Readonly<Partial<Record<ServiceTier, Omit<Price, 'tiers' | 'hostedTools'>>>>;
  readonly hostedTools?: HostedToolPrices;
  /** `sha256:` of the canonical JSON of the rate card. */
  readonly identity: string;
}

/** Prices of the tools that a provider runs. Those without a price are refused. */
export interface HostedToolPrices {
  /** Picodollars per call. */
  readonly perCall: Readonly<Partial<Record<HostedTool, bigint>>>;
  /** The calls of a request that does not limit them itself. */
  readonly maxCalls: number;
}

/** Prices as the catalog shows them: decimal text in US dollars per million tokens. */
export interface Pricing {
  readonly in_usd_per_mtok: string;
  readonly out_usd_per_mtok: string;
  readonly cache_read_usd_per_mtok: string;
  readonly cache_write_usd_per_mtok: string;
  readonly in_audio_usd_per_mtok?: string;
  readonly out_audio_usd_per_mtok?: string;
  readonly in_image_usd_per_mtok?: string;
  readonly out_image_usd_per_mtok?: string;
  readonly tiers?: Readonly<Partial<Record<ServiceTier, TierPricing>>>;
  readonly hosted_tools?: HostedToolPricing;
}

export type TierPricing = Omit<Pricing, 'tiers' | 'hosted_tools'>;

/** US dollars per call, as decimal text. */
export interface HostedToolPricing {
  readonly web_search_usd_per_call?: string;
  readonly file_search_usd_per_call?: string;
  readonly code_interpreter_usd_per_call?: string;
  readonly max_calls: number;
}

export const routingStrategies = ['priority', 'weighted', 'least_latency', 'least_cost'] as const;

/** How the requests to a model are shared among its deployments. */
export interface Routing {
  readonly strategy: (typeof routingStrategies)[number];
  /** Prompts with the same beginning go to the same deployment, as long as it is available. */
  readonly sticky: boolean;
  /** Whether a request may ask for a second deployment where the first one is slow. */
  readonly hedge: boolean;
  /** In the order of the file; at least one. */
  readonly deployments: readonly Deployment[];
}

/** A model as one provider serves it. */
export interface Deployment {
  /** `PROVIDER/UPSTREAM`; unique within the model. */
  readonly id: string;
  /** The model with the provider, the upstream name and the prices of this deployment, without `routing`. */
  readonly model: Model;
  /** Share of the requests, relative to the other deployments. */
  readonly weight: number;
  /** Lower numbers are preferred. */
  readonly priority: number;
  /** Requests of all callers; undefined: no limit. */
  readonly requestsPerMinute: number | undefined;
  readonly concurrency: number | undefined;
}

export interface Model extends UpstreamModel {
  readonly provider: Provider;
  readonly price: Price;
  readonly pricing: Pricing;
  readonly displayName: string;
  /** How its answers are cached; undefined: not at all. */
  readonly cache?: CachePolicy;
  /** Undefined: one provider. Otherwise the members above are those of the first deployment. */
  readonly routing?: Routing;
}

/** The model as each of its providers serves it. */
export const servedModels = (model: Model): readonly Model[] =>
  model.routing?.deployments.map((deployment) => deployment.model) ?? [model];

/** What can serve a request: a model and the credential that pays for it. */
export interface Candidate {
  readonly model: Model;
  /** Set where the model has deployments: this one, and how to choose among them. */
  readonly route?: { readonly routing: Routing; readonly deployment: Deployment };
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
