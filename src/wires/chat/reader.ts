import { isRecord, type Json } from '../../util/json.ts';
import { WireError } from '../core/error.ts';
import type { AnswerEvent } from '../core/answer.ts';
import { faultInStream } from '../core/provider-faults.ts';
import type { SseFrame, UpstreamReader } from '../core/wire.ts';
import { AnswerIdentity } from '../core/answer-identity.ts';
import { ChoiceReader } from './choices.ts';
import { readUsage } from './usage.ts';

/** Content of a frame: a chunk, the end marker, nothing, or invalid JSON. */
export type Held = Json | 'done' | 'nothing' | 'nonsense';

export function heldIn({ data }: SseFrame): Held {
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
  #begun = false;
  #done = false;
  #failed = false;

  push(frame: SseFrame): AnswerEvent[] {
    return this.read(heldIn(frame), frame.event);
  }

  read(held: Held, event?: string): AnswerEvent[] {
    if (this.#failed || this.#done || held === 'nothing') return [];
    if (held === 'nonsense')
      return [this.#fail('The provider sent a chunk that is not a JSON object; try again.')];
    if (held === 'done') {
      this.#done = true;
      return this.#begun ? this.last() : [];
    }
    if (isFault(held, event)) {
      this.#failed = true;
      const { error, again } = faultInStream(faultWords(held));
      return [{ type: 'failure', error, again }];
    }
    if (this.#identity.isOther(held['id'], this.begins(held)))
      return [this.#fail('The provider began a second answer within its stream; try again.')];
    const events: AnswerEvent[] = [];
    if (!this.#begun) {
      const { id } = held;
      events.push(typeof id === 'string' && id !== '' ? { type: 'start', id } : { type: 'start' });
    }
    this.#begun = true;
    this.chunk(held, events);
    if (events.some(({ type }) => type === 'failure')) this.#failed = true;
    return events;
  }

  /** Whether an answer may begin with this chunk. */
  protected abstract begins(chunk: Json): boolean;
  /** Reads a chunk that is not an error. */
  protected abstract chunk(chunk: Json, events: AnswerEvent[]): void;
  /** Returns the events for the end of a stream that had begun. */
  protected abstract last(): AnswerEvent[];
  /** Whether all answers are finished. */
  protected abstract get areFinished(): boolean;

  /** Whether `[DONE]` arrived; anything after it is ignored. */
  get isDone(): boolean {
    return this.#done;
  }

  end(): AnswerEvent[] {
    if (this.#failed || (this.#begun && (this.#done || this.areFinished))) return [];
    return [this.#fail("The provider's stream broke off before its end; try again.")];
  }

  #fail(message: string): AnswerEvent {
    this.#failed = true;
    const error = new WireError(502, 'upstream_error', message, { code: 'upstream_failed' });
    return { type: 'failure', error, again: true };
  }
}

/** Reads chunks of the chat wire, tolerating the deviations of providers. */
export class ChunkReader extends StreamReader {
  readonly #answers: number;
  readonly #choice = new ChoiceReader();
  readonly #others = new Map<number, ChoiceReader>();

  /**
   * @param answerCount number of answers in the stream; events cover the first answer, and only the text of the others
   */
  constructor(answers = 1) {
    super();
    this.#answers = answers;
  }

  protected begins(chunk: Json): boolean {
    return hasRole(chunk);
  }

  protected last(): AnswerEvent[] {
    return this.#choice.finished ? [] : [this.#choice.finish('stop')];
  }

  protected chunk(chunk: Json, events: AnswerEvent[]): void {
    const { choices } = chunk;
    // Moonshot reports usage within the choice, Groq in a member of its own.
    let counted: unknown =
      chunk['usage'] ?? (isRecord(chunk['x_groq']) ? chunk['x_groq']['usage'] : undefined);
    if (Array.isArray(choices))
      for (const choice of choices as unknown[]) {
        if (!isRecord(choice)) continue;
        counted ??= choice['usage'];
        this.#read(choice, events);
      }
    const usage = readUsage(counted);
    if (usage) events.push({ type: 'usage', usage });
  }

  #read(choice: Json, events: AnswerEvent[]): void {
    const index = typeof choice['index'] === 'number' ? choice['index'] : 0;
    if (index === 0) {
      for (const event of this.#choice.push(choice)) events.push(event);
      return;
    }
    const other = this.#others.get(index) ?? new ChoiceReader();
    this.#others.set(index, other);
    for (const event of other.push(choice)) {
      if (event.type === 'failure') events.push(event);
      else if ('text' in event) events.push({ type: 'text', text: event.text });
    }
  }

  /** The reader of an answer whose chunks have been read. */
  choice(index: number): ChoiceReader | undefined {
    return index === 0 ? this.#choice : this.#others.get(index);
  }

  protected get areFinished(): boolean {
    const others = [...this.#others.values()];
    return (
      this.#choice.finished && others.length + 1 >= this.#answers && others.every(({ finished }) => finished)
    );
  }
}

/** Usually only the first chunk of an answer has a role. */
const hasRole = ({ choices }: Json): boolean =>
  Array.isArray(choices) &&
  (choices as unknown[]).some(
    (choice) => isRecord(choice) && isRecord(choice['delta']) && typeof choice['delta']['role'] === 'string',
  );

export const isFault = (chunk: Json, event: string | undefined): boolean =>
  (chunk['error'] !== undefined && chunk['error'] !== null) ||
  event === 'error' ||
  chunk['object'] === 'error';

/** The error members, wherever the provider put them. */
export function faultWords(body: Json): Json {
  const { error } = body;
  if (isRecord(error)) return error;
  return typeof error === 'string' ? { ...body, message: error } : body;
}
