import type { Speculation } from './draft-policy.ts';
import type { Tokenizer, ChatTemplate } from './tokenizer/types.ts';

/** What weights can be quantised to while they are loaded. */
export const quantizeTypes = ['Q8_0', 'Q4_0', 'Q4_K'] as const;
export type QuantizeType = (typeof quantizeTypes)[number];

/** Every member is optional on the wires; the planes fill the defaults and check the ranges. */
export interface Sampling {
  /** 0 is greedy. */
  temperature: number;
  /** 0 keeps all. */
  topK: number;
  /** 1 keeps all. */
  topP: number;
  /** 0 keeps all; otherwise the least probability as a part of the greatest. */
  minP: number;
  /** 1 is off (llama.cpp's and Ollama's repeat_penalty, over prompt and answer). */
  repetitionPenalty: number;
  /** 0 is off (OpenAI's, over the answer). */
  presencePenalty: number;
  frequencyPenalty: number;
  /** Token id to the amount added to its logit; -100 bans, 100 forces. */
  logitBias: ReadonlyMap<number, number>;
  /** 32-bit. The same seed and request give the same text. */
  seed: number;
}

export const greedy: Sampling = {
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

/** What may stand next in one answer, token by token: a grammar, as the scheduler sees it. */
export interface Constraint {
  /**
   * The tokens that may follow, a bit each: [ceil(vocabulary / 32)]; undefined: any. Called once for every token to be
   * drawn, in order; again with nothing accepted where a drawn token was dropped.
   * @param accepted what was drawn since the last call
   */
  next(accepted: readonly number[]): Promise<Uint32Array | undefined>;
  /** The answer is over, whatever the reason. */
  close(): void;
}

export interface GenerateRequest {
  /** At least one token. */
  prompt: readonly number[];
  /** At least 1; with `promptLogprobs` at least 0. */
  maxTokens: number;
  sampling: Sampling;
  /** Texts that end the answer and are not part of it; they may span tokens. */
  stop: readonly string[];
  /** Only tokens that it allows are drawn. The engine closes it at the end of a request that it took. */
  constraint?: Constraint;
  /**
   * Report the log probability of each token, and of so many of the likeliest ones (0 to 20): of the model's own
   * distribution, before temperature, bias, penalties and constraint.
   */
  logprobs?: number;
  /**
   * With `logprobs`: of the distribution that tokens are drawn from, after bias, penalties, constraint, temperature and
   * cuts, instead. Tokens that cannot be drawn are not among the likeliest; where fewer are left, fewer are reported.
   */
  postSampling?: boolean;
  /** With `logprobs`: also of the prompt's tokens, on the first event. */
  promptLogprobs?: boolean;
  /** Report how far the prompt is evaluated, in `prompt` events before the first text. */
  progress?: boolean;
  /** Control tokens whose text belongs to the answer: what a parser of tool calls looks for. */
  visible?: ReadonlySet<number>;
  /** Go on after the model's end token. */
  ignoreEnd?: boolean;
  signal?: AbortSignal;
}

/** Natural logarithms. */
export interface TokenLogprob {
  readonly id: number;
  readonly logprob: number;
  /** The likeliest tokens, the likeliest first; as many as the request asks for. */
  readonly top: readonly { readonly id: number; readonly logprob: number }[];
}

export interface EmbedRequest {
  /** Token ids of each text, with the special tokens that the model wants; each of 1 to `contextLength`. */
  inputs: readonly (readonly number[])[];
  /** Only so many of the first elements, at most the model's `embeddingDimensions`; the default is all. */
  dimensions?: number;
  signal?: AbortSignal;
}

export interface Embeddings {
  /** In the order of the inputs, each of unit length. */
  embeddings: Float32Array[];
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
  /** Part of the prompt that was taken from the prefix cache. */
  cached_tokens: number;
}

/**
 * With `progress` alone: once when the prompt's evaluation begins, and after each step of it. Where all is `processed`,
 * the first token follows.
 */
export interface PromptProgress {
  type: 'prompt';
  /** Prompt tokens that are evaluated, those of the prefix cache among them. */
  processed: number;
  /** Prompt tokens that came from the prefix cache; at the end of the prompt what `usage` says. */
  cached: number;
  /** Milliseconds since the evaluation began. */
  ms: number;
}

export type GenerationEvent =
  /**
   * Certain text: never a part of a character or of a stop text. `ids` are the tokens consumed since the last event;
   * `logprobs` has an entry for each of them where the request asks for it. `prompt` is on the first event alone: an
   * entry for each token of the prompt, null for the first, which nothing stands before.
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
      /** The stop text that ended the answer; absent where the model ended it, or the limit. */
      stopText?: string;
      usage: Usage;
      timings: Timings;
    };

export interface ModelInfo {
  /** What `/v1/models` calls it. */
  id: string;
  architecture: string;
  /** What it is for. */
  kind: 'generate' | 'embed';
  /** Elements of an embedding, of a model that makes them. */
  embeddingDimensions?: number;
  parameters: number;
  /** The type that holds most of the weights, for example `Q8_0`. */
  quantization: string;
  /** Tokens a sequence may hold here (prompt and answer). */
  contextLength: number;
  /** Tokens the model was trained for. */
  trainedContextLength: number;
  vocabSize: number;
  /** `sha256:<hex>` over architecture and tensors, whatever container they came in. */
  digest: string;
  sizeBytes: number;
  /** Limits or origin that a user should hear at start-up; from `general.description`. */
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
  /** Sequences that may share a step. */
  slots: number;
  running: number;
  queued: number;
  completions: number;
  /** Texts embedded. */
  embeddings: number;
  promptTokens: number;
  completionTokens: number;
  /** Part of `promptTokens` that was not computed again. */
  cachedTokens: number;
  deviceLosses: number;
  /** Pages of the KV cache: free, and kept for later prompts; running sequences have the rest. */
  pages: { total: number; free: number; cached: number };
  /** Sequences that wait for their reader, without a place on the GPU. */
  parked: number;
  /** Times that a running sequence had to give its place back for lack of pages. */
  preemptions: number;
  /** Guessed tokens that steps verified, and those of them that became part of an answer. */
  speculation: {
    drafted: number;
    accepted: number;
    /** Of those, what the draft model guessed; absent without one. */
    draft?: { model: string; drafted: number; accepted: number };
  };
}

/** One resident model on one device. */
export interface Engine {
  readonly model: ModelInfo;
  readonly adapter: AdapterFacts;
  readonly tokenizer: Tokenizer;
  readonly chatTemplate: ChatTemplate | undefined;
  /**
   * Queues a request. Refusals throw `EngineError` at once (before the first event): `queue_full`,
   * `context_length_exceeded`, `device_lost`, `shutting_down`. Leaving the loop or aborting `signal` stops the
   * generation within a token. An aborted generation throws the signal's reason.
   */
  generate(request: GenerateRequest): AsyncIterable<GenerationEvent>;
  /**
   * One vector for each text, of a model for embeddings. Rejects like `generate`, and with `invalid_request` where the
   * model generates; with the signal's reason when it aborts.
   */
  embed(request: EmbedRequest): Promise<Embeddings>;
  stats(): EngineStats;
  /** Aborts what runs, releases the device. Resolves within `graceMs` also when the device hangs. */
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
  /** The model's file could not be read any more in the middle of a request. */
  | 'model_unreadable'
  | 'invalid_request'
  /** The request's constraint broke, or allows nothing that the model can write. */
  | 'constraint_failed'
  /** Nobody read the answer for too long. */
  | 'reader_stalled';

export class EngineError extends Error {
  readonly code: EngineErrorCode;
  constructor(code: EngineErrorCode, message: string, options: { cause?: unknown } = {}) {
    super(message, options);
    this.name = 'EngineError';
    this.code = code;
  }
}

export interface LoadProgress {
  stage: 'open' | 'weights' | 'measure' | 'pipelines' | 'warm-up';
  /** Bytes, measurements or pipelines. */
  done: number;
  total: number;
}

export interface EngineOptions {
  /** Path or URL of the model, or `hf:OWNER/NAME[:FILE][@REVISION]`. */
  model: string;
  /** Quantise matrices that are stored in 16 or 32 bits while they are loaded. */
  quantize?: QuantizeType;
  /** A part of the adapter's name. */
  adapter?: string;
  /** Tokens a sequence may hold; the default is the model's own, at most what the memory budget allows. */
  context?: number;
  /** Sequences that share a step. */
  parallel?: number;
  /** Requests that may wait beyond those. */
  queue?: number;
  /** Answer tokens that may wait for their reader before the sequence has to wait for him; the default is 512. */
  unreadTokens?: number;
  /** How long a sequence waits for its reader to read on; the default is 60,000. */
  readerPatienceMs?: number;
  /** For keys and values; the default is what full contexts of all sequences take, as far as the memory goes. */
  kvCacheBytes?: number;
  /** Guessed tokens, verified several a step; the default `auto` guesses where it pays. */
  speculation?: Speculation;
  /** Path or URL of a smaller model of the same family, which guesses beside what stands in the text. */
  draft?: string;
  /** Never round activations to 8 bits, however much faster. */
  exact?: boolean;
  /** Measure the built-in kernels anew, whatever was measured on this adapter before. */
  retune?: boolean;
  onProgress?: (progress: LoadProgress) => void;
  onNotice?: (message: string) => void;
}
