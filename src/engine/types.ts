import type { DawnFeature } from './gpu/dawn-features.ts';
import type { PoolMode } from './graph/graph.ts';
import type { PairEncoder, TokenPair } from './ranking/pair-encoder.ts';
import type { SpeculationMode } from './speculation/draft-policy.ts';
import type { Tokenizer, ChatTemplate } from './tokenizer/types.ts';

/** Types that weights can be quantized to while they are loaded. */
export const quantizeTypes = ['Q8_0', 'Q4_0', 'Q4_K'] as const;
export type QuantizeType = (typeof quantizeTypes)[number];

/** Sampling parameters. All members are optional on the wires; the HTTP planes fill in defaults and check ranges. */
export interface Sampling {
  /** 0 is greedy. */
  temperature: number;
  /** 0 keeps all tokens. */
  topK: number;
  /** 1 keeps all tokens. */
  topP: number;
  /** 0 keeps all tokens; otherwise the minimum probability relative to the most likely token. */
  minP: number;
  /** 1 is off. Same as `repeat_penalty` of llama.cpp and Ollama, over prompt and output. */
  repetitionPenalty: number;
  /** 0 is off. Same as in the OpenAI API, over the output. */
  presencePenalty: number;
  frequencyPenalty: number;
  /** Token id to the amount added to its logit; -100 bans a token, 100 forces it. */
  logitBias: ReadonlyMap<number, number>;
  /** 32-bit. The same seed and request give the same text. */
  seed: number;
}

export const greedySampling: Sampling = {
  temperature: 0,
  topK: 0,
  topP: 1,
  minP: 0,
  repetitionPenalty: 1,
  presencePenalty: 0,
  frequencyPenalty: 0,
  logitBias: new Map(),
  seed: 0,
};

/** Constrains which tokens may come next in one output: a grammar, as the scheduler sees it. */
export interface Constraint {
  /**
   * Resolves with the tokens that may come next, one bit each: [ceil(vocabulary / 32)]; undefined when all may.
   * Called once for every token to be sampled, in order; again with nothing accepted when a sampled token was
   * dropped.
   * @param accepted tokens sampled since the last call
   */
  next(accepted: readonly number[]): Promise<Uint32Array | undefined>;
  /** Releases the constraint. Called at the end of the request, for any reason. */
  close(): void;
}

export interface GenerateRequest {
  /** At least one token. */
  prompt: readonly number[];
  /** At least 1; at least 0 with `promptLogprobs`. */
  maxTokens: number;
  sampling: Sampling;
  /** Strings that end the output and are not part of it; they may span tokens. */
  stop: readonly string[];
  /** Limits which tokens are sampled. The engine closes it at the end of an accepted request. */
  constraint?: Constraint;
  /**
   * Report the log probability of each token and of this many of the most likely tokens (0 to 20), under the model's
   * own distribution: before temperature, bias, penalties and constraint.
   */
  logprobs?: number;
  /**
   * With `logprobs`: report the distribution that tokens are sampled from instead, after bias, penalties, constraint,
   * temperature and top-k/top-p/min-p. Tokens that cannot be sampled are left out, so fewer may be reported.
   */
  postSampling?: boolean;
  /** With `logprobs`: also report the prompt's tokens, on the first event. */
  promptLogprobs?: boolean;
  /** Report the progress of prompt evaluation in `prompt` events before the first text. */
  progress?: boolean;
  /** Control tokens whose text is included in the output, for parsers of tool calls. */
  visible?: ReadonlySet<number>;
  /** Continue after the model's end token. */
  ignoreEnd?: boolean;
  /** Evaluate the whole prompt, without what the prefix cache has of it. */
  ignoreCache?: boolean;
  /** Who the request is from: clients share the slots. All requests that name none are of one client. */
  client?: string;
  /** `batch`: runs only while no interactive request waits. The default is `interactive`. */
  priority?: RequestPriority;
  signal?: AbortSignal;
}

export const requestPriorities = ['interactive', 'batch'] as const;
export type RequestPriority = (typeof requestPriorities)[number];

/** Log probabilities (natural logarithm) of one token. */
export interface TokenLogprob {
  readonly id: number;
  readonly logprob: number;
  /** The most likely tokens in descending order, as many as the request asks for. */
  readonly top: readonly { readonly id: number; readonly logprob: number }[];
}

export interface EmbedRequest {
  /** Token ids of each text, including the special tokens the model requires; each of 1 to `contextLength` tokens. */
  inputs: readonly (readonly number[])[];
  /** Number of leading elements to keep, at most the model's `embeddingDimensions`; the default is all. */
  dimensions?: number;
  signal?: AbortSignal;
}

export interface Embeddings {
  /** In input order, normalized to unit length. */
  embeddings: Float32Array[];
  promptTokens: number;
}

export interface RankRequest {
  /** A pair for each document, of `PairEncoder`; each of 1 to `contextLength` tokens. */
  pairs: readonly TokenPair[];
  signal?: AbortSignal;
}

export interface Ranking {
  /**
   * In the order of the pairs: the model's logit that the document answers the query; its sigmoid is the model's
   * probability.
   */
  scores: number[];
  promptTokens: number;
}

export type FinishReason = 'stop' | 'length';

export interface Timings {
  /** From the request's arrival to its first prefill. */
  queued_ms: number;
  prefill_ms: number;
  decode_ms: number;
}

export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  /** Prompt tokens taken from the prefix cache. */
  cached_tokens: number;
}

/**
 * Progress of prompt evaluation, sent only with `progress`: once at the start, and after each step. The first token
 * follows when all tokens are `processed`.
 */
export interface PromptProgress {
  type: 'prompt';
  /** Prompt tokens evaluated so far, including those from the prefix cache. */
  processed: number;
  /** Prompt tokens from the prefix cache; at the end of the prompt the same number as in `usage`. */
  cached: number;
  /** Milliseconds since the evaluation started. */
  ms: number;
}

export type GenerationEvent =
  /**
   * Final text, which never ends inside a character or a stop string. `ids` are the tokens consumed since the last
   * event; `logprobs` has an entry for each of them when requested. `prompt` is only set on the first event: an entry
   * for each token of the prompt, null for the first token, which has no predecessor.
   */
  | {
      type: 'text';
      text: string;
      ids: readonly number[];
      logprobs?: readonly TokenLogprob[];
      prompt?: readonly (TokenLogprob | null)[];
    }
  | PromptProgress
  | {
      type: 'end';
      finishReason: FinishReason;
      /** The stop string that ended the output; undefined when the model or a limit ended it. */
      stopText?: string;
      usage: Usage;
      timings: Timings;
    };

export interface ModelInfo {
  /** Id of the model in `/v1/models`. */
  id: string;
  architecture: string;
  /** Purpose of the model. */
  kind: 'generate' | 'embed' | 'rerank';
  /** Elements of an embedding. */
  embeddingDimensions: number;
  /**
   * How the rows of a text become its embedding: as the file says; `last` for a model that generates, `rank` for one
   * that ranks documents.
   */
  pooling: PoolMode | 'rank';
  parameters: number;
  /** The type that holds most of the weights, for example `Q8_0`. */
  quantization: string;
  /** Maximum tokens of a sequence in this engine, prompt and output. */
  contextLength: number;
  /** Context length in training. */
  trainedContextLength: number;
  vocabSize: number;
  /** `sha256:<hex>` over architecture and tensors, independent of the container. */
  digest: string;
  sizeBytes: number;
  /** Limitations or origin of the model, shown at start-up; from `general.description`. */
  description?: string;
}

export interface AdapterFacts {
  backend: string;
  vendor: string;
  description: string;
  software: boolean;
  features: readonly string[];
}

export interface EngineStats {
  /** Most concurrent sequences. */
  slots: number;
  running: number;
  queued: number;
  completions: number;
  /** Number of embedded texts. */
  embeddings: number;
  /** Number of ranked documents. */
  rankedDocuments: number;
  promptTokens: number;
  completionTokens: number;
  /** Part of `promptTokens` taken from the prefix cache. */
  cachedTokens: number;
  deviceLosses: number;
  /** Pages of the KV cache: free, and cached for later prompts; running sequences use the rest. */
  pages: { total: number; free: number; cached: number };
  /** Tokens that a page holds. */
  pageTokens: number;
  /** Sequences paused because their reader does not read; they hold no slot. */
  stalledReaders: number;
  /** Number of times a running sequence was preempted for lack of pages, or to make room for another client's. */
  preemptions: number;
  /** Device memory in bytes: weights, caches and workspace, with those of a draft model. */
  memoryBytes: number;
  /** Draft tokens that were verified, and those that were accepted into an output. */
  speculation: {
    drafted: number;
    accepted: number;
    /** The part drafted by the draft model; undefined without one. */
    draft?: { model: string; drafted: number; accepted: number };
  };
}

/**
 * Observes the generation requests of a model, for metrics. It is called while results are delivered, so its methods
 * must be fast and must not throw. Times are in ms.
 */
export interface RequestObserver {
  /** The prompt of a request is evaluated. */
  onPrompt(prompt: { readonly tokens: number; readonly cachedTokens: number }): void;
  /** @param ms time since the request arrived */
  onFirstToken(ms: number): void;
  /** A token after the first one. @param ms time since the previous token; 0 where one step accepted both */
  onNextToken(ms: number): void;
  onEnd(end: ObservedEnd): void;
}

/** The end of a request. */
export interface ObservedEnd {
  /** `abort`: canceled by its client or by the host. `error`: the engine failed it. */
  readonly reason: FinishReason | 'abort' | 'error';
  readonly promptTokens: number;
  readonly outputTokens: number;
  /** Undefined for requests that did not finish. */
  readonly timings: Timings | undefined;
}

/** A loaded model on one device. */
export interface Engine {
  readonly model: ModelInfo;
  readonly adapter: AdapterFacts;
  /** Built-in kernels that gave wrong results on this adapter and were replaced. Default: none. */
  readonly replacedKernels?: readonly ReplacedKernel[];
  /** Why every request is refused at the moment, such as a device that is being replaced; undefined when none is. */
  readonly unavailable?: EngineError | undefined;
  readonly tokenizer: Tokenizer;
  readonly chatTemplate: ChatTemplate | undefined;
  /**
   * Queues a request. Rejected requests throw `EngineError` at once, before the first event: `queue_full`,
   * `context_length_exceeded`, `device_lost`, `shutting_down`. Leaving the loop or aborting `signal` stops the
   * generation within one token. An aborted generation throws the signal's reason.
   */
  generate(request: GenerateRequest): AsyncIterable<GenerationEvent>;
  /**
   * Computes one vector for each text. Rejects like `generate`, and with the signal's reason when it aborts. A model
   * that generates embeds texts beside its other requests.
   */
  embed(request: EmbedRequest): Promise<Embeddings>;
  /** Makes the pairs of `rank`; undefined where the model does not rank documents. */
  readonly pairEncoder?: PairEncoder | undefined;
  /** Computes a score for each pair. Rejects like `embed`. */
  rank(request: RankRequest): Promise<Ranking>;
  /** Refuses like `embed` and `rank` where the queue is full, for callers that encode many texts first. */
  requireQueueSpace(): void;
  stats(): EngineStats;
  /** Aborts all requests and releases the device. Resolves within `graceMs` even if the device hangs. */
  close(graceMs?: number): Promise<void>;
}

export type EngineErrorCode =
  | 'queue_full'
  | 'context_length_exceeded'
  | 'device_lost'
  | 'shutting_down'
  | 'no_adapter'
  | 'model_too_large'
  | 'unsupported_model'
  | 'broken_model'
  /** Reading the model file failed during a request. */
  | 'model_unreadable'
  | 'invalid_request'
  /** The request's constraint failed, or allows no token that the model can produce. */
  | 'constraint_failed'
  /** The client did not read the output for too long. */
  | 'reader_stalled';

export class EngineError extends Error {
  readonly code: EngineErrorCode;
  /** With `model_too_large`: device memory in bytes that the model lacks, where more memory would help. */
  readonly missingBytes: number | undefined;
  constructor(
    code: EngineErrorCode,
    message: string,
    options: { cause?: unknown; missingBytes?: number | undefined } = {},
  ) {
    super(message, options);
    this.name = 'EngineError';
    this.code = code;
    this.missingBytes = options.missingBytes;
  }
}

/**
 * Whether the model's kernels are compared with the CPU oracle at the start. `sample`: some results of each kernel, once for each
 * adapter, driver and choice of kernels. `full`: more of them, in every layer, at every start.
 */
export type VerifyMode = (typeof verifyModes)[number];
export const verifyModes = ['full', 'sample', 'off'] as const;

/** A built-in kernel that gave wrong results on this adapter and was replaced. */
export interface ReplacedKernel {
  /** Source, weight format and traits. */
  readonly kernel: string;
  readonly reason: string;
}

export interface LoadProgress {
  stage: 'open' | 'weights' | 'measure' | 'pipelines' | 'warm-up' | 'verify';
  /** Bytes, measurements or pipelines, depending on the stage. */
  done: number;
  total: number;
}

export interface EngineOptions {
  /** Path or URL of the model, or `hf:OWNER/NAME[:FILE][@REVISION]`. */
  model: string;
  /** Type to quantize matrices to while loading, when they are stored in 16 or 32 bits. */
  quantize?: QuantizeType;
  /** Part of the adapter's name. */
  adapter?: string;
  /** Features (toggles) of Dawn to enable in addition to the default ones; pages ignore them. */
  dawnFeatures?: readonly DawnFeature[];
  /** Most tokens of a sequence; the default is the model's own limit, reduced to fit the memory budget. */
  context?: number;
  /** Most concurrent sequences. */
  parallel?: number;
  /** Most requests that wait in addition to the running ones. */
  queue?: number;
  /** Shares of clients relative to the others; the default is 1 for each. */
  clientWeights?: ReadonlyMap<string, number>;
  /** Output tokens that a client may leave unread before its sequence is paused; the default is 512. */
  unreadTokens?: number;
  /** How long a paused sequence waits for its client to read; the default is 60,000. */
  readerTimeoutMs?: number;
  /** Bytes for keys and values; the default holds full contexts of all sequences, as far as memory allows. */
  kvCacheBytes?: number;
  /** Speculative decoding; the default `auto` drafts where it pays off. */
  speculation?: SpeculationMode;
  /** Path or URL of a draft model: a smaller model of the same family, used in addition to prompt lookup. */
  draft?: string;
  /** The model must only make embeddings; another one is refused before it is loaded. */
  embedsOnly?: boolean;
  /** Memory in bytes that other models of the process take, where the device shares the memory of the processor. */
  reservedBytes?: number;
  /** Device memory in bytes that this model may take; default: what the device gives. */
  memoryBytes?: number;
  /**
   * Part of the memory left for keys and values that the model takes, where that memory is known and one whole context
   * fits in less; the default is 1. The rest is for other models.
   */
  cacheShare?: number;
  /** Refuse the model where its default context does not fit, instead of shrinking it. */
  keepsContext?: boolean;
  /** Never round activations and weights to f16, 16 or 8 bits in products, even where that is faster. */
  exact?: boolean;
  /** Measure and verify the built-in kernels again, ignoring earlier results on this adapter. */
  retune?: boolean;
  /** Default: `sample` where the platform stores measurements, else `off`. */
  verify?: VerifyMode;
  /** Creates the observer of the model's generation requests. */
  observeRequests?: (model: Pick<ModelInfo, 'id'>) => RequestObserver;
  onProgress?: (progress: LoadProgress) => void;
  onNotice?: (message: string) => void;
}
