import type { Json } from '../../util/json.ts';
import type { EmbeddingsTranslation } from '../embeddings/types.ts';
import type { UpstreamModel } from './types.ts';
import type { Cap, Cost, HostedTool, ReceiptReason } from './types.ts';
import type { HttpError } from '../../http/error.ts';
import type { WireError } from './error.ts';
import type { AnswerEvent } from './answer.ts';
import type { Conversation } from './conversation.ts';

export type ClientWireName = 'chat' | 'messages' | 'responses' | 'completions';

/** What the gateway needs to know about a request on any wire. */
export interface RequestFacts {
  readonly model: string;
  readonly stream: boolean;
  /** Whether the caller asked for usage in the stream. */
  readonly includeUsage: boolean;
  /** The caller's limit; undefined: the wire's default applies. */
  readonly maxTokens: number | undefined;
  /** Number of requested answers: `n`, `best_of`, and prompts of a list. */
  readonly answers: number;
  /**
   * Capabilities that the request needs (`tools`, `images`...), each with the request member to name in a refusal.
   */
  readonly needs: readonly { readonly cap: Cap; readonly param: string }[];
  /** UTF-8 bytes of all text of messages and tools, without the base64 data of images and files. */
  readonly textBytes: number;
  readonly parts: number;
  readonly images: number;
  /** Decoded size of files such as PDFs, in bytes. */
  readonly fileBytes: number;
  /**
   * The beginning of the text (up to 4 KiB), by which a pool selects the host that may have it in its KV cache.
   */
  readonly prefix: string;
  /** Kinds of content other than text, images and files, that have prices of their own. */
  readonly media?: readonly ('audio_input' | 'audio_output' | 'image_output')[];
  /** Tools that the provider runs and bills by the call. */
  readonly hostedTools?: readonly HostedToolUse[];
  /** The caller's limit of the calls of all these tools. */
  readonly maxHostedCalls?: number;
  /** The tier that the request asks for, as the provider names it. */
  readonly serviceTier?: unknown;
}

/** A tool of a request that the provider runs. */
export interface HostedToolUse {
  readonly tool: HostedTool;
  /** The request member that asks for it. */
  readonly param: string;
  /** The largest number of its calls, where the request or the tool itself limits them. */
  readonly maxCalls?: number;
}

/** A request as received: its text, which same-wire requests keep byte for byte, and its parsed body. */
export interface ClientRequest {
  readonly text: string;
  readonly body: Readonly<Record<string, unknown>>;
  readonly facts: RequestFacts;
  /** Returns a request header by its lower-case name. */
  readonly header: (name: string) => string | undefined;
}

/** A protocol that callers use. */
export interface ClientWire {
  readonly name: ClientWireName;
  /**
   * Checks the members that the gateway reads; lenient about the rest.
   * @throws WireError 400 with all violations
   */
  readonly facts: (body: Readonly<Record<string, unknown>>, text: string) => RequestFacts;
  /**
   * Reads the whole request.
   * @throws WireError 400 where it is malformed or cannot be translated (`unsupported`)
   */
  readonly conversation: (request: ClientRequest) => Conversation;
  /** Writes the body of a buffered answer. */
  readonly body: (events: readonly AnswerEvent[], metadata: AnswerMetadata) => object;
  readonly writer: (metadata: AnswerMetadata) => StreamWriter;
  /** Writes the body of an error, `{"error": {...}}` with the further members that clients of the wire expect. */
  readonly errorBody: (error: HttpError, requestId: string) => object;
}

/** Metadata of an answer. */
export interface AnswerMetadata {
  readonly requestId: string;
  /** Catalog id of the model that answers. */
  readonly model: string;
  /** Unix time in seconds. */
  readonly created: number;
  readonly request: AnsweredRequest;
  /** Set where the local engine answers. */
  readonly resident?: ResidentMetadata;
}

/** The part of a request that its answer repeats. */
export interface AnsweredRequest {
  readonly body: ClientRequest['body'];
  readonly facts: Pick<RequestFacts, 'includeUsage' | 'answers' | 'hostedTools'>;
}

export interface ResidentMetadata {
  /** Identifies the weights: the same seed gives the same text only on the same weights. */
  readonly fingerprint: string;
  /** On the Responses wire. Default: the response continues none and is not stored. */
  readonly response?: ResponseState;
}

/** What the host keeps of a response, as its members say. */
export interface ResponseState {
  readonly previousId: string | null;
  readonly isStored: boolean;
  /** Its id, where it has one before the answer begins. */
  readonly id?: string;
  readonly isBackground?: boolean;
}

/** Writes a stream as the text of SSE frames; '' where an event produces no output. */
export interface StreamWriter {
  readonly write: (event: AnswerEvent) => string;
  /** Closes the stream after the last event. `receipt` is the settled cost, where the request is billed. */
  readonly end: (receipt?: StreamReceipt) => string;
  /** Called instead of `end`, at any time: writes the error in-band. */
  readonly fail: (error: HttpError) => string;
}

export interface StreamReceipt {
  readonly cost: Cost;
  readonly requestId: string;
  readonly effectiveModel: string;
  readonly reason: ReceiptReason;
}

/** One SSE frame as received. */
export interface SseFrame {
  readonly event: string | undefined;
  /** The data lines, joined by newlines. */
  readonly data: string;
  /** The frame's text as received, including its empty line. */
  readonly raw: string;
}

/** A protocol that providers use. */
export interface UpstreamWire {
  readonly request: (conversation: Conversation, options: UpstreamOptions) => UpstreamBody;
  /** Whether requests can be written that let the provider search the web. */
  readonly canSearchWeb?: true;
  /** Reads a whole body of status 2xx. @throws UpstreamFailure where it is not a body of this wire */
  readonly answer: (text: string) => AnswerEvent[];
  readonly reader: () => UpstreamReader;
  /** Classifies a response with a status other than 2xx. Never repeats a secret of the body. */
  readonly failure: (
    status: number,
    text: string,
    headers: Readonly<Record<string, string>>,
  ) => UpstreamFault;
}

/**
 * Everything that the gateway knows about a protocol of providers. One is listed for each `wire` of the configuration, in
 * `src/wires/providers.ts`.
 */
export interface ProviderWire {
  readonly upstream: UpstreamWire;
  /** Client wires that are the same protocol: their requests and answers pass through unchanged. */
  readonly passthrough?: Readonly<Partial<Record<ClientWireName, Translation>>>;
  /** Undefined: its providers have no embeddings. */
  readonly embeddings?: EmbeddingsTranslation;
  /** The header with the credential. */
  readonly credentialHeader: (key: string) => Readonly<Record<string, string>>;
  /** Headers that every request needs. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The version that the base URL usually ends with, as `v1`. */
  readonly pathVersion: string;
  /** Statuses of the list of models that say that a key is wrong, besides 401 and 403. */
  readonly wrongKeyStatuses?: readonly number[];
}

export interface UpstreamOptions {
  readonly model: UpstreamModel;
  readonly stream: boolean;
  /** Maximum number of tokens of the answer: the caller's limit or the default. Always sent. */
  readonly maxTokens: number;
  /** Maximum number of calls of tools that the provider runs; undefined: the caller's own limit applies, or none. */
  readonly maxHostedCalls?: number;
  /** Additional members of the body, in the format of the wire; chat only. */
  readonly extraMembers?: Readonly<Record<string, unknown>>;
}

export interface UpstreamBody {
  /** Path below the base URL, such as `/chat/completions`. */
  readonly path: string;
  /** Headers in addition to the credential and the content type. */
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
  /** The body as a value, where the local engine reads it. */
  readonly value?: Json;
}

export interface UpstreamReader {
  readonly push: (frame: SseFrame) => AnswerEvent[];
  /** Called when the connection ended; returns a `failure` where the stream was incomplete. */
  readonly end: () => AnswerEvent[];
}

export interface UpstreamFault {
  readonly error: WireError;
  /** Whether a retry may succeed, at this provider or another. */
  readonly isRetryable: boolean;
  /** Whether the fault counts against the provider's health (5xx, 529; not 429), for the circuit breaker. */
  readonly isUnhealthy: boolean;
  /** Delay before a retry, in ms, as requested by the provider; infinite where only another provider can help. */
  readonly retryAfterMs?: number;
}

/**
 * Translates between a client wire and a provider wire, as the gateway uses it. Composed of a `ClientWire` and an
 * `UpstreamWire` (`compose-translation.ts`), or specific to a pair of equal wires, where everything passes through byte
 * for byte except for the members that must change.
 */
export interface Translation {
  readonly request: (request: ClientRequest, options: UpstreamOptions) => UpstreamBody;
  /** The caller's body for a complete body of the provider, and its events. */
  readonly answer: (
    text: string,
    metadata: AnswerMetadata,
  ) => { readonly text: string; readonly events: AnswerEvent[] };
  readonly stream: (metadata: AnswerMetadata) => StreamTranslation;
  readonly failure: UpstreamWire['failure'];
}

export interface StreamTranslation {
  /** The caller's text for a frame ('' for none), and its events. */
  readonly push: (frame: SseFrame) => { readonly text: string; readonly events: AnswerEvent[] };
  /** Called when the connection ended. The events contain a `failure` where the stream was incomplete. */
  readonly finish: () => { readonly text: string; readonly events: AnswerEvent[] };
  readonly end: StreamWriter['end'];
  readonly fail: StreamWriter['fail'];
}
