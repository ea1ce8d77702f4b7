import { isRecord, type Json } from '../../util/json.ts';
import { WireError } from '../core/error.ts';
import type { AnswerEvent } from '../core/answer.ts';
import { faultInStream } from '../core/provider-faults.ts';
import type { SseFrame, UpstreamReader } from '../core/wire.ts';
import { AnswerIdentity } from '../core/answer-identity.ts';
import { ChoiceReader } from './choices.ts';
import { readUsage } from './usage.ts';

/** Content of a frame: a chunk, the end marker, nothing, or invalid JSON. */
export type FrameContent = Json | 'done' | 'nothing' | 'nonsense';

export function parseFrame({ data }: SseFrame): FrameContent {
  if (data === '[DONE]') return 'done';
  if (data === '') return 'nothing';
  try {
    const chunk: unknown = JSON.parse(data);
    return isRecord(chunk) ? chunk : 'nonsense';
  } catch {
    return data.trim() === '' ? 'nothing' : data.trim() === '[DONE]' ? 'done' : 'nonsense';
  }
}

/** Reads the chunks of one stream until its end or its first error. */
export abstract class StreamReader implements UpstreamReader {
  readonly #identity = new AnswerIdentity();
  #hasBegun = false;
  #isStreamDone = false;
  #hasFailed = false;

  push(frame: SseFrame): AnswerEvent[] {
    return this.read(parseFrame(frame), frame.event);
  }

  read(content: FrameContent, event?: string): AnswerEvent[] {
    if (this.#hasFailed || this.#isStreamDone || content === 'nothing') return [];
    if (content === 'nonsense')
      return [this.#fail('The provider sent a chunk that is not a JSON object; try again.')];
    if (content === 'done') {
      this.#isStreamDone = true;
      return this.#hasBegun ? this.finalEvents() : [];
    }
    if (isErrorChunk(content, event)) {
      this.#hasFailed = true;
      const { error, isRetryable } = faultInStream(errorFields(content));
      return [{ type: 'failure', error, isRetryable }];
    }
    if (this.#identity.isOther(content['id'], this.canBeginWith(content)))
      return [this.#fail('The provider began a second answer within its stream; try again.')];
    const events: AnswerEvent[] = [];
    if (!this.#hasBegun) {
      const { id } = content;
      events.push(typeof id === 'string' && id !== '' ? { type: 'start', id } : { type: 'start' });
    }
    this.#hasBegun = true;
    this.readChunk(content, events);
    if (events.some(({ type }) => type === 'failure')) this.#hasFailed = true;
    return events;
  }

  /** Whether an answer may begin with this chunk. */
  protected abstract canBeginWith(chunk: Json): boolean;
  /** Reads a chunk that is not an error. */
  protected abstract readChunk(chunk: Json, events: AnswerEvent[]): void;
  /** Returns the events for the end of a stream that had begun. */
  protected abstract finalEvents(): AnswerEvent[];
  /** Whether all answers are finished. */
  protected abstract get isFinished(): boolean;

  /** Whether `[DONE]` arrived; anything after it is ignored. */
  get isDone(): boolean {
    return this.#isStreamDone;
  }

  end(): AnswerEvent[] {
    if (this.#hasFailed || (this.#hasBegun && (this.#isStreamDone || this.isFinished))) return [];
    return [this.#fail("The provider's stream broke off before its end; try again.")];
  }

  #fail(message: string): AnswerEvent {
    this.#hasFailed = true;
    const error = new WireError(502, 'upstream_error', message, { code: 'upstream_failed' });
    return { type: 'failure', error, isRetryable: true };
  }
}

/** Reads chunks of the chat wire, tolerating the deviations of providers. */
export class ChunkReader extends StreamReader {
  readonly #answerCount: number;
  readonly #choiceReader = new ChoiceReader();
  readonly #otherChoices = new Map<number, ChoiceReader>();
  /** The last tier that a chunk named: some providers do so in the first chunk only. */
  #tier: unknown;

  /**
   * @param answerCount number of answers in the stream; events cover the first answer, and only the text of the others
   */
  constructor(answerCount = 1) {
    super();
    this.#answerCount = answerCount;
  }

  protected canBeginWith(chunk: Json): boolean {
    return hasRole(chunk);
  }

  protected finalEvents(): AnswerEvent[] {
    return this.#choiceReader.isFinished ? [] : [this.#choiceReader.finish('stop')];
  }

  protected readChunk(chunk: Json, events: AnswerEvent[]): void {
    const { choices } = chunk;
    this.#tier = chunk['service_tier'] ?? this.#tier;
    // Moonshot reports usage within the choice, Groq in a member of its own.
    let usageMember: unknown =
      chunk['usage'] ?? (isRecord(chunk['x_groq']) ? chunk['x_groq']['usage'] : undefined);
    if (Array.isArray(choices))
      for (const choice of choices as unknown[]) {
        if (!isRecord(choice)) continue;
        usageMember ??= choice['usage'];
        this.#readChoice(choice, events);
      }
    const usage = readUsage(usageMember, this.#tier);
    if (usage) events.push({ type: 'usage', usage });
  }

  #readChoice(choice: Json, events: AnswerEvent[]): void {
    const index = typeof choice['index'] === 'number' ? choice['index'] : 0;
    if (index === 0) {
      for (const event of this.#choiceReader.push(choice)) events.push(event);
      return;
    }
    const other = this.#otherChoices.get(index) ?? new ChoiceReader();
    this.#otherChoices.set(index, other);
    for (const event of other.push(choice)) {
      if (event.type === 'failure') events.push(event);
      else if ('text' in event) events.push({ type: 'text', text: event.text });
    }
  }

  /** The reader of an answer whose chunks have been read. */
  choiceReader(index: number): ChoiceReader | undefined {
    return index === 0 ? this.#choiceReader : this.#otherChoices.get(index);
  }

  protected get isFinished(): boolean {
    const otherChoices = [...this.#otherChoices.values()];
    return (
      this.#choiceReader.isFinished &&
      otherChoices.length + 1 >= this.#answerCount &&
      otherChoices.every(({ isFinished: finished }) => finished)
    );
  }
}

/** Usually only the first chunk of an answer has a role. */
const hasRole = ({ choices }: Json): boolean =>
  Array.isArray(choices) &&
  (choices as unknown[]).some(
    (choice) => isRecord(choice) && isRecord(choice['delta']) && typeof choice['delta']['role'] === 'string',
  );

export const isErrorChunk = (chunk: Json, event: string | undefined): boolean =>
  (chunk['error'] !== undefined && chunk['error'] !== null) ||
  event === 'error' ||
  chunk['object'] === 'error';

/** The error members, wherever the provider put them. */
export function errorFields(body: Json): Json {
  const { error } = body;
  if (isRecord(error)) return error;
  return typeof error === 'string' ? { ...body, message: error } : body;
}
