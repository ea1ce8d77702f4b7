import type { HostedTool, Usage } from '../../wires/core/types.ts';
import type { AnswerEvent, FinishReason } from '../../wires/core/answer.ts';
import { type UpstreamFrames } from '../upstream/types.ts';
import { UpstreamFailure } from '../../wires/core/upstream-failure.ts';
import { faultInAnswer } from '../../wires/core/provider-faults.ts';
import type { AnswerBatches } from '../../wires/core/backend.ts';
import type { RequestFacts, SseFrame, StreamTranslation, StreamWriter } from '../../wires/core/wire.ts';

type Failure = Extract<AnswerEvent, { type: 'failure' }>;

export const toUpstreamFailure = (failure: Failure): UpstreamFailure =>
  new UpstreamFailure(faultInAnswer(failure));

/** The usage of an answer that no provider made. */
export const noUsage: Usage = { fresh: 0, cacheWrite: 0, cacheWrite1h: 0, cacheRead: 0, output: 0 };

const maxKept = 4 * 1024 * 1024;

/** The state of an answer, updated with each of its events. */
export class AnswerTally {
  isFinished = false;
  finishReason: FinishReason | undefined;
  /** The answer's events, when a transcript is recorded; otherwise undefined. */
  recordedEvents: AnswerEvent[] | undefined;
  /** Size limit of recorded events, in bytes of text: an answer may be endless. */
  maxRecordedBytes = maxKept;
  failure: Failure | undefined;
  #usage: Usage | undefined;
  /** Billed calls of tools that the provider ran, by tool and key. */
  #calls: Map<HostedTool, Set<string | number>> | undefined;
  /** Bytes of text that the model wrote. */
  #bytes = 0;

  /** Whether the answer ended without a failure and its usage is known. */
  get isComplete(): boolean {
    return this.isFinished && this.failure === undefined && this.usage !== undefined;
  }

  /** Whether the answer may be given to other requests: all of it arrived, and no filter of the provider ended it. */
  get isCacheable(): boolean {
    return this.isFinished && this.failure === undefined && this.finishReason !== 'content_filter';
  }

  /** The last usage that the provider reported. A usage of zero for an answer with text counts as not reported. */
  get usage(): Usage | undefined {
    return this.#usage && (this.#bytes === 0 || totalTokens(this.#usage) > 0)
      ? this.#withCalls(this.#usage)
      : undefined;
  }

  /** Adds the calls that the answer has, where the usage counts fewer. */
  #withCalls(usage: Usage): Usage {
    if (!this.#calls) return usage;
    const hostedCalls: Partial<Record<HostedTool, number>> = { ...usage.hostedCalls };
    for (const [tool, keys] of this.#calls) hostedCalls[tool] = Math.max(hostedCalls[tool] ?? 0, keys.size);
    return { ...usage, hostedCalls };
  }

  #addCall({ tool, key }: Extract<AnswerEvent, { type: 'hosted_call' }>): void {
    this.#calls ??= new Map();
    const keys = this.#calls.get(tool) ?? new Set();
    this.#calls.set(tool, keys.add(key === '' ? keys.size : key));
  }

  add(events: readonly AnswerEvent[]): void {
    for (const event of events) {
      if (this.#bytes < this.maxRecordedBytes) this.recordedEvents?.push(event);
      switch (event.type) {
        case 'usage':
          this.#usage = event.usage;
          break;
        case 'hosted_call':
          this.#addCall(event);
          break;
        case 'finish':
          this.isFinished = true;
          this.finishReason = event.reason;
          break;
        case 'failure':
          this.failure ??= event;
          break;
        case 'text':
        case 'reasoning':
        case 'refusal':
        case 'tool_arguments':
          this.#bytes += Buffer.byteLength(event.text);
          break;
        default:
      }
    }
  }

  /** Estimates the usage of an unfinished answer: reported input tokens if known, and output at 4 bytes a token. */
  estimateUsage({ textBytes }: RequestFacts): Usage {
    const outputTokens = Math.ceil(this.#bytes / 4);
    const reportedUsage = this.usage;
    if (reportedUsage) return { ...reportedUsage, output: Math.max(reportedUsage.output, outputTokens) };
    return this.#withCalls({
      fresh: Math.ceil(textBytes / 4),
      cacheWrite: 0,
      cacheWrite1h: 0,
      cacheRead: 0,
      output: outputTokens,
    });
  }
}

const totalTokens = ({ fresh, cacheWrite, cacheWrite1h, cacheRead, output }: Usage): number =>
  fresh + cacheWrite + cacheWrite1h + cacheRead + output;

/** Translates a provider's frames to the caller's wire. Frames that arrive together are sent together. */
export class Relay {
  readonly tally = new AnswerTally();
  readonly stream: StreamTranslation;
  readonly #source: UpstreamFrames;
  readonly #frames: AsyncIterator<SseFrame>;
  readonly #redact: (text: string) => string;

  /** @param redact removes secrets from the translated text before it is sent */
  constructor(
    frames: UpstreamFrames,
    stream: StreamTranslation,
    redact: (text: string) => string = (text) => text,
  ) {
    this.#source = frames;
    this.#frames = frames[Symbol.asyncIterator]();
    this.stream = stream;
    this.#redact = redact;
  }

  /**
   * Translates the next frames; `done` is true with the last. A failure that the provider reports is in the tally.
   * Rejects with `UpstreamFailure` when the connection breaks before the answer is complete.
   */
  async next(): Promise<{ readonly text: string; readonly done: boolean }> {
    let first: IteratorResult<SseFrame>;
    try {
      first = await this.#frames.next();
    } catch (error) {
      const text = this.#tallyEvents(this.stream.finish());
      if (!this.tally.isComplete) throw error;
      return { text, done: true };
    }
    if (first.done) return { text: this.#tallyEvents(this.stream.finish()), done: true };
    let text = '';
    let frame: SseFrame | undefined = first.value;
    while (frame && !this.tally.failure) {
      text += this.#tallyEvents(this.stream.push(frame));
      frame = this.tally.failure ? undefined : this.#source.takeReady?.();
    }
    // When the end arrived with these frames, it is sent with them: this saves a write and a turn of the event loop.
    const isOver = !this.tally.failure && this.#source.hasEnded?.() === true;
    if (isOver) text += this.#tallyEvents(this.stream.finish());
    return { text: this.#redact(text), done: isOver || this.tally.failure !== undefined };
  }

  #tallyEvents({ text, events }: { readonly text: string; readonly events: readonly AnswerEvent[] }): string {
    if (events.length > 0) this.tally.add(events);
    return text;
  }
}

/** Writes the events of the resident model as frames of the caller's wire. */
export class LocalRelay {
  readonly tally = new AnswerTally();
  readonly stream: StreamWriter;
  readonly #events: AnswerBatches;

  constructor(events: AnswerBatches, writer: StreamWriter) {
    this.#events = events;
    this.stream = writer;
  }

  /** See `Relay.next`. */
  async next(): Promise<{ readonly text: string; readonly done: boolean }> {
    let next: IteratorResult<readonly AnswerEvent[], void>;
    try {
      next = await this.#events.next();
    } catch (error) {
      if (!this.tally.isComplete) throw error;
      return { text: '', done: true };
    }
    if (next.done) return { text: '', done: true };
    this.tally.add(next.value);
    let text = '';
    for (const event of next.value) text += this.stream.write(event);
    return { text, done: false };
  }
}
