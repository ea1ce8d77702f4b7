import { exceedsJsonLimits } from '../../http/json-limits.ts';
import type { SseFrame } from '../../wires/core/wire.ts';
import { Deadlines } from './deadlines.ts';
import type { ProviderFailures } from './provider-failures.ts';
import { OversizedEvent, SseParser } from '../../wires/core/sse-parser.ts';
import type { UpstreamFrames } from './types.ts';
import type { UpstreamFailure } from '../../wires/core/upstream-failure.ts';

/** Unread data (bytes, or characters of frames) above which reading from the connection is paused. */
const maxUnread = 256 * 1024;
/** Size and time limits of an error body: enough for its message. */
const maxErrorBytes = 64 * 1024;
const errorTimeoutMs = 10_000;

/** Nesting limit of JSON: parsed values are serialized recursively later. Short texts cannot exceed it. */
const maxDepth = 10_000;
const isTooDeep = (text: string): boolean =>
  text.length > 2 * maxDepth &&
  exceedsJsonLimits(text, {
    maxDepth: maxDepth,
    maxValues: Number.POSITIVE_INFINITY,
    countsElements: false,
  }) === 'depth';

export interface AnswerLimits {
  readonly totalMs: number;
  readonly idleMs: number;
  /** Size limit of a body, decompressed. */
  readonly maxAnswerBytes: number;
  /** Size limit of one event. */
  readonly maxEventChars: number;
}

/** The connection that a body is read from. */
export interface AnswerSource {
  pause(): void;
  resume(): void;
  /** Closes the connection. */
  abort(): void;
}

type NextFrame = IteratorResult<SseFrame, undefined>;
interface PendingRead {
  readonly resolve: (next: NextFrame) => void;
  readonly reject: (error: unknown) => void;
}

/** The body of one answer. A source pushes bytes; one reader reads them as a text or as frames. */
export class AnswerBody {
  readonly #limits: AnswerLimits;
  readonly #failures: ProviderFailures;
  readonly #source: AnswerSource;
  readonly #onEnd: (failure: unknown) => void;
  readonly #deadlines: Deadlines;
  #chunks: Buffer[] = [];
  #bytes = 0;
  #maxBytes: number;
  #isPaused = false;
  /** No more data is accepted. */
  #isEnded = false;
  #failure: unknown;
  #pendingText:
    | { readonly resolve: (bytes: Buffer) => void; readonly reject: (error: unknown) => void }
    | undefined;
  #errorRead: { readonly timer: NodeJS.Timeout } | undefined;
  #parser: SseParser | undefined;
  #frames: SseFrame[] = [];
  #readIndex = 0;
  #unreadChars = 0;
  #pendingRead: PendingRead | undefined;

  /** @param settled called once at the end, with the failure or undefined */
  constructor(
    limits: AnswerLimits,
    failures: ProviderFailures,
    source: AnswerSource,
    onEnd: (failure: unknown) => void,
  ) {
    this.#limits = limits;
    this.#failures = failures;
    this.#source = source;
    this.#onEnd = onEnd;
    this.#maxBytes = limits.maxAnswerBytes;
    this.#deadlines = new Deadlines(limits, (limit) =>
      this.#fail(
        limit === 'totalMs' ? failures.totalTimeout(limits.totalMs) : failures.idleTimeout(limits.idleMs),
      ),
    );
  }

  push(chunk: Buffer): void {
    if (this.#isEnded) return;
    this.#bytes += chunk.length;
    if (this.#parser) {
      if (this.#bytes > this.#maxBytes) this.#fail(this.#tooLarge());
      else this.#parse(this.#parser, chunk);
      return;
    }
    this.#deadlines.activity();
    this.#chunks.push(chunk);
    if (this.#bytes > this.#maxBytes) this.#fail(this.#tooLarge());
    else if (!this.#pendingText && this.#bytes > maxUnread) this.#pause();
  }

  /** The provider ended the body. */
  end(): void {
    if (this.#isEnded) return;
    if (this.#parser) for (const frame of this.#parser.end()) this.#deliverFrame(frame);
    this.#finish(undefined);
  }

  /** Ends the body with a failure of the source or the abort reason of the caller. The connection is closed. */
  fail(failure: unknown): void {
    this.#fail(failure);
  }

  /** @param lenient for error bodies: a truncated or broken-off body is accepted */
  text({ isLenient }: { readonly isLenient: boolean }): Promise<string> {
    this.#claimReader();
    if (isLenient) {
      this.#maxBytes = maxErrorBytes;
      const timer = setTimeout(() => this.#fail(this.#failures.idleTimeout(errorTimeoutMs)), errorTimeoutMs);
      this.#errorRead = { timer };
      if (this.#isEnded) clearTimeout(timer);
    }
    const pendingText = new Promise<Buffer>((resolve, reject) => {
      this.#pendingText = { resolve, reject };
    });
    if (this.#isEnded) this.#resolveText();
    else {
      this.#deadlines.startWaiting();
      this.#resume();
    }
    return pendingText.then((bytes) => {
      const text = new TextDecoder().decode(bytes);
      if (isTooDeep(text)) throw this.#tooDeep();
      return text;
    });
  }

  frames(): UpstreamFrames {
    this.#claimReader();
    const parser = new SseParser(this.#limits.maxEventChars);
    this.#parser = parser;
    const chunks = this.#chunks;
    this.#chunks = [];
    for (const chunk of chunks) if (!this.#parse(parser, chunk)) break;
    if (this.#isEnded && this.#failure === undefined)
      for (const frame of parser.end()) this.#deliverFrame(frame);
    this.#deadlines.stopWaiting();
    if (this.#unreadChars <= maxUnread) this.#resume();
    return {
      takeReady: () => this.#takeFrame(),
      hasEnded: () => this.#isEnded && this.#failure === undefined && this.#frames.length === 0,
      [Symbol.asyncIterator]: () => ({
        next: () => this.#next(),
        return: () => {
          this.discard();
          return Promise.resolve<NextFrame>({ value: undefined, done: true });
        },
      }),
    };
  }

  /** Discards the rest of the body. */
  discard(): void {
    // Creating an error is expensive, and most bodies are complete when they are cut.
    if (!this.#isEnded) this.#fail(this.#failures.canceled());
    this.#frames = [];
    this.#readIndex = 0;
  }

  #claimReader(): void {
    if (this.#pendingText || this.#parser) throw new Error('the body of an answer is read once');
  }

  /** Takes the next frame that has arrived. */
  #takeFrame(): SseFrame | undefined {
    const frame = this.#frames[this.#readIndex];
    if (frame === undefined) return undefined;
    this.#readIndex += 1;
    this.#unreadChars -= frame.raw.length;
    if (this.#readIndex === this.#frames.length) {
      this.#frames = [];
      this.#readIndex = 0;
    }
    if (this.#isPaused && this.#unreadChars <= maxUnread / 2) this.#resume();
    return frame;
  }

  #next(): Promise<NextFrame> {
    const value = this.#takeFrame();
    if (value !== undefined) return Promise.resolve({ value, done: false });
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    if (this.#isEnded) return Promise.resolve({ value: undefined, done: true });
    if (this.#pendingRead) return Promise.reject(new Error('one frame is read at a time'));
    this.#deadlines.startWaiting();
    return new Promise((resolve, reject) => {
      this.#pendingRead = { resolve, reject };
    });
  }

  /** @returns false when the body was ended with a failure */
  #parse(parser: SseParser, chunk: Buffer): boolean {
    const before = parser.lineCount;
    let frames: SseFrame[];
    try {
      frames = parser.push(chunk);
    } catch (error) {
      if (!(error instanceof OversizedEvent)) throw error;
      const failure = this.#failures.unreadable(error.message, error);
      if (this.#isEnded) this.#failure ??= failure;
      else this.#fail(failure);
      return false;
    }
    for (const { data } of frames) {
      if (!isTooDeep(data)) continue;
      const failure = this.#tooDeep();
      if (this.#isEnded) this.#failure ??= failure;
      else this.#fail(failure);
      return false;
    }
    // Bytes that never complete a line count as idle time.
    if (parser.lineCount !== before) this.#deadlines.activity();
    for (const frame of frames) this.#deliverFrame(frame);
    if (this.#unreadChars > maxUnread) this.#pause();
    return true;
  }

  #deliverFrame(frame: SseFrame): void {
    const pendingRead = this.#pendingRead;
    if (!pendingRead) {
      this.#frames.push(frame);
      this.#unreadChars += frame.raw.length;
      return;
    }
    this.#pendingRead = undefined;
    this.#deadlines.stopWaiting();
    pendingRead.resolve({ value: frame, done: false });
  }

  #tooDeep(): UpstreamFailure {
    return this.#failures.unreadable(`its JSON has more than ${maxDepth} levels`);
  }

  #tooLarge(): UpstreamFailure {
    return this.#failures.unreadable(`its body has more than ${this.#maxBytes} bytes`);
  }

  #fail(failure: unknown): void {
    if (this.#isEnded) return;
    this.#finish(failure);
    this.#source.abort();
  }

  #finish(failure: unknown): void {
    this.#isEnded = true;
    this.#failure = failure;
    this.#deadlines.clear();
    clearTimeout(this.#errorRead?.timer);
    this.#resolveText();
    const pendingRead = this.#pendingRead;
    this.#pendingRead = undefined;
    if (failure !== undefined) pendingRead?.reject(failure);
    else pendingRead?.resolve({ value: undefined, done: true });
    this.#onEnd(failure);
  }

  #resolveText(): void {
    if (this.#failure === undefined || this.#errorRead) {
      const bytes = Buffer.concat(this.#chunks);
      this.#pendingText?.resolve(this.#errorRead ? bytes.subarray(0, maxErrorBytes) : bytes);
    } else this.#pendingText?.reject(this.#failure);
    this.#chunks = this.#pendingText ? [] : this.#chunks;
  }

  #pause(): void {
    if (this.#isPaused) return;
    this.#isPaused = true;
    this.#source.pause();
  }

  #resume(): void {
    if (!this.#isPaused || this.#isEnded) return;
    this.#isPaused = false;
    this.#source.resume();
  }
}
