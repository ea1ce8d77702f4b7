/** Public types of the browser engine. */
import type { ModelInfo } from '../../src/engine/index.ts';

export interface ChatOptions {
  /**
   * The weights: URL of a GGUF file (or of a Hugging Face or MLC folder), or files that the user dropped or chose.
   * Default: the small embedded model, where a host serves this module; the package `lathe-web` has it as `lathe-web/model`.
   */
  readonly model?: string | URL | readonly File[];
  /**
   * Store a model from a URL in the page's private file system (OPFS) and load it from there the next time. Default
   * true.
   */
  readonly cache?: boolean;
  /** In tokens. A value that does not fit is refused. Default: the trained length of the model, as far as it fits. */
  readonly contextLength?: number;
  readonly onProgress?: (progress: LoadProgress) => void;
  /** Aborts loading. */
  readonly signal?: AbortSignal;
}

export interface LoadProgress {
  readonly phase: 'adapter' | 'download' | 'weights' | 'compile' | 'warm-up' | 'ready';
  /** For users. */
  readonly message: string;
  /** For `download` and `weights`, in bytes; `total` is absent when the server does not send the size. */
  readonly done?: number;
  readonly total?: number;
  /** The bytes come from the private file system. */
  readonly cached?: boolean;
}

/** Error codes of ChatError; its `message` says what to do. */
export type ChatFailure =
  | 'no_webgpu'
  | 'no_adapter'
  | 'download_failed'
  | 'quota_exceeded'
  | 'bad_model'
  | 'does_not_fit'
  | 'device_lost'
  | 'invalid_request'
  | 'closed'
  | 'failed';

/** A violation in a request or in options. */
export interface RequestViolation {
  /** Path of the member, with dots; empty for the whole value. */
  readonly path: string;
  readonly message: string;
}

export interface DeviceFacts {
  readonly vendor: string;
  readonly architecture: string;
  readonly description: string;
  /** Whether this is a software adapter: correct, but slow. */
  readonly fallback: boolean;
  readonly features: readonly string[];
  readonly maxBufferBytes: number;
}

/** Tokens and milliseconds of one answer, measured in the worker. */
export interface ChatTimings {
  readonly prompt_tokens: number;
  /** The part of `prompt_tokens` reused from earlier requests; 0 for a stopped answer. */
  readonly cached_tokens: number;
  readonly completion_tokens: number;
  readonly prefill_ms: number;
  readonly decode_ms: number;
  /** Undefined for an answer of fewer than two tokens. */
  readonly decode_tokens_per_second: number | undefined;
}

/** The supported subset of OpenAI's request; other members are refused by name. */
export interface ChatRequest {
  readonly messages: readonly { readonly role: 'system' | 'user' | 'assistant'; readonly content: string }[];
  readonly max_tokens?: number;
  readonly temperature?: number;
  readonly top_p?: number;
  readonly top_k?: number;
  readonly min_p?: number;
  readonly repetition_penalty?: number;
  readonly presence_penalty?: number;
  readonly frequency_penalty?: number;
  readonly seed?: number;
  readonly stop?: string | readonly string[];
  readonly stream?: boolean;
}

export interface ChatCompletion {
  readonly id: string;
  readonly object: 'chat.completion';
  readonly created: number;
  readonly model: string;
  readonly choices: readonly [
    {
      readonly index: 0;
      readonly message: {
        readonly role: 'assistant';
        readonly content: string;
        /** Reasoning text that the model wrote before its answer. */
        readonly reasoning_content?: string;
      };
      readonly finish_reason: 'stop' | 'length';
    },
  ];
  readonly usage: {
    readonly prompt_tokens: number;
    readonly completion_tokens: number;
    readonly total_tokens: number;
  };
  readonly timings: ChatTimings;
}

export interface ChatChunk {
  readonly id: string;
  readonly object: 'chat.completion.chunk';
  readonly created: number;
  readonly model: string;
  readonly choices: readonly [
    {
      readonly index: 0;
      readonly delta: {
        readonly role?: 'assistant';
        readonly content?: string;
        readonly reasoning_content?: string;
      };
      readonly finish_reason: 'stop' | 'length' | null;
    },
  ];
  /** On the last chunk only. */
  readonly usage?: ChatCompletion['usage'];
  readonly timings?: ChatTimings;
}

/** `signal` ends the answer early; its text so far is kept. */
export interface AskOptions {
  readonly signal?: AbortSignal;
}

export interface Chat {
  readonly model: ModelInfo;
  readonly device: DeviceFacts;
  readonly chat: {
    readonly completions: {
      create(
        request: ChatRequest & { readonly stream: true },
        options?: AskOptions,
      ): Promise<AsyncIterable<ChatChunk>>;
      create(
        request: ChatRequest & { readonly stream?: false },
        options?: AskOptions,
      ): Promise<ChatCompletion>;
    };
  };
  /** Resolves with the reason when the device is lost or the worker ends; never rejects. */
  readonly gone: Promise<ChatFailure>;
  /** Frees the worker and the GPU memory. */
  close(): Promise<void>;
}

/** A model stored in the private file system of the origin. */
export interface KeptModel {
  readonly url: string;
  readonly bytes: number;
  readonly whole: boolean;
}
