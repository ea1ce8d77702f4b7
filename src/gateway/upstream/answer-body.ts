import { exceedsJsonLimits } from '../../http/json-limits.ts';
import type { SseFrame } from '../../wires/core/wire.ts';
import { Deadlines } from './deadlines.ts';
import type { ProviderFaults } from './faults.ts';
import { OversizedEvent, SseParser } from '../../wires/core/sse-parser.ts';
import type { Frames } from './types.ts';
import type { UpstreamFailure } from '../../wires/core/upstream-failure.ts';

/** Unread data (bytes, or characters of frames) above which reading from the connection is paused. */
const mostWaiting = 256 * 1024;
/** Size and time limits of an error body: enough for its message. */
const errorBytes = 64 * 1024;
const errorMs = 10_000;

/** Nesting limit of JSON: parsed values are serialized recursively later. Short texts cannot exceed it. */
const mostDepth = 10_000;
const isTooDeep = (text: string): boolean =>
  text.length > 2 * mostDepth &&
  exceedsJsonLimits(text, {
    maxDepth: mostDepth,
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
export interface BodySource {
  pause(): void;
  resume(): void;
  /** Closes the connection. */
  abort(): void;
}

type Next = IteratorResult<SseFrame, undefined>;
interface Waiter {
  readonly resolve: (next: Next) => void;
  readonly reject: (error: unknown) => void;
}

/** The body of one answer. A source pushes bytes; one reader reads them as a text or as frames. */
export class AnswerBody {
  readonly #limits: AnswerLimits;
  readonly #faults: ProviderFaults;
  readonly #source: BodySource;
  readonly #settled: (failure: unknown) => void;
  readonly #deadlines: Deadlines;
  #chunks: Buffer[] = [];
  #bytes = 0;
  #most: number;
  #paused = false;
  /** No more data is accepted. */
  #over = false;
  #failure: unknown;
  #whole:
    | { readonly resolve: (bytes: Buffer) => void; readonly reject: (error: unknown) => void }
    | undefined;
  #lenient: { readonly timer: NodeJS.Timeout } | undefined;
  #parser: SseParser | undefined;
  #frames: SseFrame[] = [];
  #taken = 0;
  #waitingChars = 0;
  #waiter: Waiter | undefined;

  /** @param settled called once at the end, with the failure or undefined */
  constructor(
    limits: AnswerLimits,
    faults: ProviderFaults,
    source: BodySource,
    settled: (failure: unknown) => void,
  ) {
    this.#limits = limits;
    this.#faults = faults;
    this.#source = source;
    this.#settled = settled;
    this.#most = limits.maxAnswerBytes;
    this.#deadlines = new Deadlines(limits, (what) =>
      this.#break(what === 'totalMs' ? faults.tooLong(limits.totalMs) : faults.silent(limits.idleMs)),
    );
  }

  push(chunk: Buffer): void {
    if (this.#over) return;
    this.#bytes += chunk.length;
    if (this.#parser) {
      if (this.#bytes > this.#most) this.#break(this.#tooLarge());
      else this.#parse(this.#parser, chunk);
      return;
    }
    this.#deadlines.news();
    this.#chunks.push(chunk);
    if (this.#bytes > this.#most) this.#break(this.#tooLarge());
    else if (!this.#whole && this.#bytes > mostWaiting) this.#pause();
  }

  /** The provider ended the body. */
  end(): void {
    if (this.#over) return;
    if (this.#parser) for (const frame of this.#parser.end()) this.#deliver(frame);
    this.#finish(undefined);
  }

  /** Ends the body with a failure of the source or the abort reason of the caller. The connection is closed. */
  break(failure: unknown): void {
    this.#break(failure);
  }

  /** @param lenient for error bodies: a truncated or broken-off body is accepted */
  text({ lenient }: { readonly lenient: boolean }): Promise<string> {
    this.#takeOnce();
    if (lenient) {
      this.#most = errorBytes;
      const timer = setTimeout(() => this.#break(this.#faults.silent(errorMs)), errorMs);
      this.#lenient = { timer };
      if (this.#over) clearTimeout(timer);
    }
    const whole = new Promise<Buffer>((resolve, reject) => {
      this.#whole = { resolve, reject };
    });
    if (this.#over) this.#answerWhole();
    else {
      this.#deadlines.wait();
      this.#resume();
    }
    return whole.then((bytes) => {
      const text = new TextDecoder().decode(bytes);
      if (isTooDeep(text)) throw this.#tooDeep();
      return text;
    });
  }

  frames(): Frames {
    this.#takeOnce();
    const parser = new SseParser(this.#limits.maxEventChars);
    this.#parser = parser;
    const chunks = this.#chunks;
    this.#chunks = [];
    for (const chunk of chunks) if (!this.#parse(parser, chunk)) break;
    if (this.#over && this.#failure === undefined) for (const frame of parser.end()) this.#deliver(frame);
    this.#deadlines.rest();
    if (this.#waitingChars <= mostWaiting) this.#resume();
    return {
      ready: () => this.#take(),
      ended: () => this.#over && this.#failure === undefined && this.#frames.length === 0,
      [Symbol.asyncIterator]: () => ({
        next: () => this.#next(),
        return: () => {
          this.cut();
          return Promise.resolve<Next>({ value: undefined, done: true });
        },
      }),
    };
  }

  /** Discards the rest of the body. */
  cut(): void {
    // Creating an error is expensive, and most bodies are complete when they are cut.
    if (!this.#over) this.#break(this.#faults.cut());
    this.#frames = [];
    this.#taken = 0;
  }

  #takeOnce(): void {
    if (this.#whole || this.#parser) throw new Error('the body of an answer is read once');
  }

  /** Takes the next frame that has arrived. */
  #take(): SseFrame | undefined {
    const frame = this.#frames[this.#taken];
    if (frame === undefined) return undefined;
    this.#taken += 1;
    this.#waitingChars -= frame.raw.length;
    if (this.#taken === this.#frames.length) {
      this.#frames = [];
      this.#taken = 0;
    }
    if (this.#paused && this.#waitingChars <= mostWaiting / 2) this.#resume();
    return frame;
  }

  #next(): Promise<Next> {
    const value = this.#take();
    if (value !== undefined) return Promise.resolve({ value, done: false });
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    if (this.#over) return Promise.resolve({ value: undefined, done: true });
    if (this.#waiter) return Promise.reject(new Error('one frame is read at a time'));
    this.#deadlines.wait();
    return new Promise((resolve, reject) => {
      this.#waiter = { resolve, reject };
    });
  }

  /** @returns false when the body was ended with a failure */
  #parse(parser: SseParser, chunk: Buffer): boolean {
    const before = parser.lines;
    let frames: SseFrame[];
    try {
      frames = parser.push(chunk);
    } catch (error) {
      if (!(error instanceof OversizedEvent)) throw error;
      const failure = this.#faults.nonsense(error.message, error);
      if (this.#over) this.#failure ??= failure;
      else this.#break(failure);
      return false;
    }
    for (const { data } of frames) {
      if (!isTooDeep(data)) continue;
      const failure = this.#tooDeep();
      if (this.#over) this.#failure ??= failure;
      else this.#break(failure);
      return false;
    }
    // Bytes that never complete a line count as idle time.
    if (parser.lines !== before) this.#deadlines.news();
    for (const frame of frames) this.#deliver(frame);
    if (this.#waitingChars > mostWaiting) this.#pause();
    return true;
  }

  #deliver(frame: SseFrame): void {
    const waiter = this.#waiter;
    if (!waiter) {
      this.#frames.push(frame);
      this.#waitingChars += frame.raw.length;
      return;
    }
    this.#waiter = undefined;
    this.#deadlines.rest();
    waiter.resolve({ value: frame, done: false });
  }

  #tooDeep(): UpstreamFailure {
    return this.#faults.nonsense(`its JSON has more than ${mostDepth} levels`);
  }

  #tooLarge(): UpstreamFailure {
    return this.#faults.nonsense(`its body has more than ${this.#most} bytes`);
  }

  #break(failure: unknown): void {
    if (this.#over) return;
    this.#finish(failure);
    this.#source.abort();
  }

  #finish(failure: unknown): void {
    this.#over = true;
    this.#failure = failure;
    this.#deadlines.stop();
    clearTimeout(this.#lenient?.timer);
    this.#answerWhole();
    const waiter = this.#waiter;
    this.#waiter = undefined;
    if (failure !== undefined) waiter?.reject(failure);
    else waiter?.resolve({ value: undefined, done: true });
    this.#settled(failure);
  }

  #answerWhole(): void {
    if (this.#failure === undefined || this.#lenient) {
      const bytes = Buffer.concat(this.#chunks);
      this.#whole?.resolve(this.#lenient ? bytes.subarray(0, errorBytes) : bytes);
    } else this.#whole?.reject(this.#failure);
    this.#chunks = this.#whole ? [] : this.#chunks;
  }

  #pause(): void {
    if (this.#paused) return;
    this.#paused = true;
    this.#source.pause();
  }

  #resume(): void {
    if (!this.#paused || this.#over) return;
    this.#paused = false;
    this.#source.resume();
  }
}
