/** The engine for pages: what `createChat` takes and gives. */
import type { ModelInfo } from '../../src/engine/index.ts';

export interface ChatOptions {
  /**
   * The weights: a URL of a GGUF file (or of a folder of Hugging Face's or MLC's), or files that were dropped or chosen.
   * Absent: the small model that lies beside this module.
   */
  readonly model?: string | URL | readonly File[];
  /** Keep what comes from a URL in the page's private file system (OPFS) and take it from there the next time. Default true. */
  readonly cache?: boolean;
  /** In tokens; what is named is kept or refused. The default is what the model was trained for, as far as it fits. */
  readonly contextLength?: number;
  readonly onProgress?: (progress: LoadProgress) => void;
  /** Gives up loading. */
  readonly signal?: AbortSignal;
}

export interface LoadProgress {
  readonly phase: 'adapter' | 'download' | 'weights' | 'compile' | 'warm-up' | 'ready';
  /** For people. */
  readonly message: string;
  /** Of `download` and `weights`, in bytes; `total` undefined where nobody says. */
  readonly done?: number;
  readonly total?: number;
  /** The bytes are in the private file system already. */
  readonly cached?: boolean;
}

/** Why there is no chat; `message` says what to do. */
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

/** One thing that is wrong with a request or with options. */
export interface RequestViolation {
  /** The member, with dots; empty for the whole. */
  readonly path: string;
  readonly message: string;
}

export interface DeviceFacts {
  readonly vendor: string;
  readonly architecture: string;
  readonly description: string;
  /** A software adapter: correct, and slow. */
  readonly fallback: boolean;
  readonly features: readonly string[];
  readonly maxBufferBytes: number;
}

/** Of one answer, in tokens and milliseconds, measured in the worker. */
export interface ChatTimings {
  readonly prompt_tokens: number;
  /** A part of `prompt_tokens`, taken from earlier requests; 0 of an answer that was stopped. */
  readonly cached_tokens: number;
  readonly completion_tokens: number;
  readonly prefill_ms: number;
  readonly decode_ms: number;
  /** Undefined for an answer of less than two tokens. */
  readonly decode_tokens_per_second: number | undefined;
}

/** OpenAI's request, as far as it means something here; other members are refused by name. */
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
        /** What a model that thinks wrote before its answer. */
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
  /** On the last chunk. */
  readonly usage?: ChatCompletion['usage'];
  readonly timings?: ChatTimings;
}

/** Ends the answer where `signal` aborts: what there is of it stays. */
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
  /** Resolves, with why, when the device is lost or the worker ends; never rejects. */
  readonly gone: Promise<ChatFailure>;
  /** Frees the worker and the GPU's memory. */
  close(): Promise<void>;
}

/** Models that earlier pages of this origin left in the private file system. */
export interface KeptModel {
  readonly url: string;
  readonly bytes: number;
  readonly whole: boolean;
}
