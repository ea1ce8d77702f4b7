import type { Json } from '../../util/json.ts';
import type { UpstreamModel } from './types.ts';
import type { Cap, Cost, ReceiptReason } from './types.ts';
import type { HttpError } from '../../http/error.ts';
import type { WireError } from './error.ts';
import type { AnswerEvent } from './answer.ts';
import type { Conversation } from './conversation.ts';

export type ClientWireName = 'chat' | 'messages' | 'responses' | 'completions';

/** What the gateway itself has to know of a request before anything else, on every wire. */
export interface RequestFacts {
  readonly model: string;
  readonly stream: boolean;
  /** Whether the caller wants the count of tokens in the stream. */
  readonly includeUsage: boolean;
  /** As the caller set it; undefined: the wire's default applies. */
  readonly maxTokens: number | undefined;
  /** The answers asked for, `n` (and `best_of`, prompts of a list). */
  readonly answers: number;
  /** Members of the request that need a capability, by name: `tools`, `images`... with the member to name in a refusal. */
  readonly needs: readonly { readonly cap: Cap; readonly param: string }[];
  /** UTF-8 bytes of all text that the model will read, base64 of images and files not counted; messages and tools. */
  readonly textBytes: number;
  readonly parts: number;
  readonly images: number;
  /** Bytes of files (PDF and the like), decoded. */
  readonly fileBytes: number;
  /** The beginning of the text (up to 4 KiB), by which a pool chooses the host that may have it in its KV cache. */
  readonly prefix: string;
}

/** A request as it came: its text, which same-wire requests keep byte by byte, and what `JSON.parse` made of it. */
export interface ClientRequest {
  readonly text: string;
  readonly body: Readonly<Record<string, unknown>>;
  readonly facts: RequestFacts;
  /** A header of the request, by its lower-case name. */
  readonly header: (name: string) => string | undefined;
}

/** How callers speak. */
export interface ClientWire {
  readonly name: ClientWireName;
  /** Checks what the gateway reads, leniently as to the rest. @throws WireError 400 with all violations at once */
  readonly facts: (body: Readonly<Record<string, unknown>>, text: string) => RequestFacts;
  /** Reads all of it. @throws WireError 400: malformed, or what cannot be translated (`unsupported`) */
  readonly conversation: (request: ClientRequest) => Conversation;
  /** A buffered answer. */
  readonly body: (events: readonly AnswerEvent[], about: AnswerAbout) => object;
  readonly writer: (about: AnswerAbout) => StreamWriter;
  /** The body of an error, `{"error": {...}}` and what else clients of the wire look for. */
  readonly errorBody: (error: HttpError, requestId: string) => object;
}

/** What an answer says of itself. */
export interface AnswerAbout {
  readonly requestId: string;
  /** Of the model that answers, as the catalog has it. */
  readonly model: string;
  /** Seconds since 1970. */
  readonly created: number;
  readonly request: AnsweredRequest;
  /** Where our own engine answers, which says more than providers do. */
  readonly resident?: ResidentAbout;
}

/** What answers repeat of their request. */
export interface AnsweredRequest {
  readonly body: ClientRequest['body'];
  readonly facts: Pick<RequestFacts, 'includeUsage' | 'answers'>;
}

export interface ResidentAbout {
  /** Names the weights: the same seed gives the same text only on the same ones. */
  readonly fingerprint: string;
}

/** Writes a stream, frames of SSE as text; '' where an event is nothing to the caller. */
export interface StreamWriter {
  readonly write: (event: AnswerEvent) => string;
  /** After the last event: what closes the stream. `receipt` is what was settled, where somebody pays. */
  readonly end: (receipt?: StreamReceipt) => string;
  /** Instead of `end`, at any time: the error in-band. */
  readonly fail: (error: HttpError) => string;
}

export interface StreamReceipt {
  readonly cost: Cost;
  readonly requestId: string;
  readonly effectiveModel: string;
  readonly reason: ReceiptReason;
}

/** One frame of SSE as it came. */
export interface SseFrame {
  readonly event: string | undefined;
  /** Lines of data joined by a newline. */
  readonly data: string;
  /** As it came, its empty line included. */
  readonly raw: string;
}

/** How providers are asked. */
export interface UpstreamWire {
  readonly request: (conversation: Conversation, options: UpstreamOptions) => UpstreamBody;
  /** A whole body of status 2xx. @throws UpstreamFailure where it is none of this wire */
  readonly answer: (text: string) => AnswerEvent[];
  readonly reader: () => UpstreamReader;
  /** What a status other than 2xx means. Never repeats a secret of the body. */
  readonly failure: (
    status: number,
    text: string,
    headers: Readonly<Record<string, string>>,
  ) => UpstreamFault;
}

export interface UpstreamOptions {
  readonly model: UpstreamModel;
  readonly stream: boolean;
  /** The most tokens of the answer: the caller's, or what applies instead. Always sent. */
  readonly maxTokens: number;
  /** Further members of the body, as the wire has them; chat only. */
  readonly more?: Readonly<Record<string, unknown>>;
}

export interface UpstreamBody {
  /** Below the base URL, as `/chat/completions`. */
  readonly path: string;
  /** Beside the credential and the content type. */
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
  /** The same before it was written, where it was read. */
  readonly value?: Json;
}

export interface UpstreamReader {
  readonly push: (frame: SseFrame) => AnswerEvent[];
  /** The connection ended: a `failure` where the stream was not whole. */
  readonly end: () => AnswerEvent[];
}

export interface UpstreamFault {
  readonly error: WireError;
  /** Whether to ask again may help, here or elsewhere. */
  readonly again: boolean;
  /** Whether it speaks against the provider's health (5xx, 529; not 429), for the circuit breaker. */
  readonly unwell: boolean;
  /** The provider's wish, in ms; infinite where only another one can help. */
  readonly retryAfterMs?: number;
}

/**
 * From one wire of callers to one of providers and back, as the gateway uses it. Composed of a `ClientWire` and an
 * `UpstreamWire` (`translated.ts`), or written for the pair where both speak the same: then all passes as it came,
 * byte by byte, but for what has to change.
 */
export interface Translation {
  readonly request: (request: ClientRequest, options: UpstreamOptions) => UpstreamBody;
  /** The caller's body for a whole one of the provider, and what it says. */
  readonly answer: (
    text: string,
    about: AnswerAbout,
  ) => { readonly text: string; readonly events: AnswerEvent[] };
  readonly stream: (about: AnswerAbout) => StreamTranslation;
  readonly failure: UpstreamWire['failure'];
}

export interface StreamTranslation {
  /** What the caller gets for a frame ('' for nothing), and what it says. */
  readonly push: (frame: SseFrame) => { readonly text: string; readonly events: AnswerEvent[] };
  /** The connection ended. Events hold a `failure` where the stream was not whole. */
  readonly finish: () => { readonly text: string; readonly events: AnswerEvent[] };
  readonly end: StreamWriter['end'];
  readonly fail: StreamWriter['fail'];
}
