import type { Usage } from '../../wires/core/types.ts';
import type { AnswerEvent, FinishReason } from '../../wires/core/answer.ts';
import { type Frames } from '../upstream/types.ts';
import { UpstreamFailure } from '../../wires/core/upstream-failure.ts';
import { faultInAnswer } from '../../wires/core/provider-faults.ts';
import type { AnswerBatches } from '../../wires/core/backend.ts';
import type { RequestFacts, SseFrame, StreamTranslation, StreamWriter } from '../../wires/core/wire.ts';

type Failure = Extract<AnswerEvent, { type: 'failure' }>;

export const unserved = (failure: Failure): UpstreamFailure => new UpstreamFailure(faultInAnswer(failure));

/** Bytes of an answer's text that are kept for somebody who does: an answer need not end. */
const mostKept = 4 * 1024 * 1024;

/** What an answer's events say, kept up as they pass. */
export class Tally {
  finished = false;
  finish: FinishReason | undefined;
  /** What was said, where somebody keeps it. */
  kept: AnswerEvent[] | undefined;
  failure: Failure | undefined;
  #usage: Usage | undefined;
  /** Of all that the model wrote. */
  #bytes = 0;

  /** The answer came to its end, and what it cost was said. */
  get isWhole(): boolean {
    return this.finished && this.failure === undefined && this.usage !== undefined;
  }

  /** As the provider said last. That an answer of many words took no tokens at all, it did not say. */
  get usage(): Usage | undefined {
    return this.#usage && (this.#bytes === 0 || countOf(this.#usage) > 0) ? this.#usage : undefined;
  }

  add(events: readonly AnswerEvent[]): void {
    for (const event of events) {
      if (this.#bytes < mostKept) this.kept?.push(event);
      switch (event.type) {
        case 'usage':
          this.#usage = event.usage;
          break;
        case 'finish':
          this.finished = true;
          this.finish = event.reason;
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

  /** Where the provider did not say: what it said of the input, and what was seen of the answer. */
  estimated({ textBytes }: RequestFacts): Usage {
    const seen = Math.ceil(this.#bytes / 4);
    const known = this.usage;
    if (known) return { ...known, output: Math.max(known.output, seen) };
    return { fresh: Math.ceil(textBytes / 4), cacheWrite: 0, cacheWrite1h: 0, cacheRead: 0, output: seen };
  }
}

const countOf = ({ fresh, cacheWrite, cacheWrite1h, cacheRead, output }: Usage): number =>
  fresh + cacheWrite + cacheWrite1h + cacheRead + output;

/** Frames of a provider, turned into those of the caller: those that came together go on together. */
export class Relay {
  readonly tally = new Tally();
  readonly stream: StreamTranslation;
  readonly #source: Frames;
  readonly #frames: AsyncIterator<SseFrame>;
  readonly #redact: (text: string) => string;

  /** @param redact of what the provider wrote, before it goes on */
  constructor(frames: Frames, stream: StreamTranslation, redact: (text: string) => string = (text) => text) {
    this.#source = frames;
    this.#frames = frames[Symbol.asyncIterator]();
    this.stream = stream;
    this.#redact = redact;
  }

  /**
   * What the next frames make; `done` after the last. A failure that the provider reports is in the tally.
   * Rejects with `UpstreamFailure` where the connection breaks off before all was said: of a whole answer, nothing is lost.
   */
  async next(): Promise<{ readonly text: string; readonly done: boolean }> {
    let first: IteratorResult<SseFrame>;
    try {
      first = await this.#frames.next();
    } catch (error) {
      const text = this.#count(this.stream.finish());
      if (!this.tally.isWhole) throw error;
      return { text, done: true };
    }
    if (first.done) return { text: this.#count(this.stream.finish()), done: true };
    let text = '';
    let frame: SseFrame | undefined = first.value;
    while (frame && !this.tally.failure) {
      text += this.#count(this.stream.push(frame));
      frame = this.tally.failure ? undefined : this.#source.ready?.();
    }
    // The end that came with them goes on with them: one write less, and one turn less to wait for.
    const isOver = !this.tally.failure && this.#source.ended?.() === true;
    if (isOver) text += this.#count(this.stream.finish());
    return { text: this.#redact(text), done: isOver || this.tally.failure !== undefined };
  }

  #count({ text, events }: { readonly text: string; readonly events: readonly AnswerEvent[] }): string {
    if (events.length > 0) this.tally.add(events);
    return text;
  }
}

/** Events of the model of this process, in the caller's frames. */
export class LocalRelay {
  readonly tally = new Tally();
  readonly stream: StreamWriter;
  readonly #events: AnswerBatches;

  constructor(events: AnswerBatches, writer: StreamWriter) {
    this.#events = events;
    this.stream = writer;
  }

  /** As `Relay` does. */
  async next(): Promise<{ readonly text: string; readonly done: boolean }> {
    let next: IteratorResult<readonly AnswerEvent[], void>;
    try {
      next = await this.#events.next();
    } catch (error) {
      if (!this.tally.isWhole) throw error;
      return { text: '', done: true };
    }
    if (next.done) return { text: '', done: true };
    this.tally.add(next.value);
    let text = '';
    for (const event of next.value) text += this.stream.write(event);
    return { text, done: false };
  }
}
