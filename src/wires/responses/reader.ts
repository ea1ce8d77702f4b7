import { isRecord, type Json } from '../../util/json.ts';
import { WireError } from '../core/error.ts';
import type { AnswerEvent } from '../core/answer.ts';
import { faultInStream } from '../core/provider-faults.ts';
import type { SseFrame, UpstreamReader } from '../core/wire.ts';
import { finishOf, ItemReader } from './items.ts';
import { readUsage } from './usage.ts';

type Failure = Extract<AnswerEvent, { type: 'failure' }>;

/** Reads the events of a response; unknown events are ignored. */
export class ResponseReader implements UpstreamReader {
  /** Items by output index. */
  readonly #items = new Map<number, ItemReader>();
  #calls = 0;
  /** `id` of the first `response.created`; empty where it has none. */
  #id: string | undefined;
  /** Failure of an `error` event; the next event may contain usage. */
  #failure: Failure | undefined;
  #over = false;

  push({ event: name, data }: SseFrame): AnswerEvent[] {
    if (this.#over || data === '' || data === '[DONE]') return [];
    let event: unknown;
    try {
      event = JSON.parse(data);
    } catch {
      return this.#fail(broken('an event that is not JSON'));
    }
    if (!isRecord(event)) return this.#fail(broken('an event that is not an object'));
    const type = event['type'] ?? name;
    if (this.#failure && type !== 'response.failed') return this.#fail(this.#failure);
    const read = typeof type === 'string' ? readers.get(type) : undefined;
    if (read) return read(this, event);
    // Some servers report errors in the format of the chat wire.
    return isRecord(event['error']) && type === undefined ? this.error(event) : [];
  }

  end(): AnswerEvent[] {
    return this.#over ? [] : this.#fail(this.#failure ?? broken('no end'));
  }

  /** Whether an `error` arrived whose failure was not returned yet. */
  get isFailing(): boolean {
    return this.#failure !== undefined && !this.#over;
  }

  /** Some providers give each event its own id, so only a second `response.created` indicates a second answer. */
  start({ response }: Json): AnswerEvent[] {
    const id = isRecord(response) && typeof response['id'] === 'string' ? response['id'] : '';
    if (this.#id !== undefined)
      return id === this.#id && this.#items.size === 0
        ? []
        : this.#fail(failed('The provider began a second answer within its stream'));
    this.#id = id;
    return id === '' ? [] : [{ type: 'start', id }];
  }

  /** The item at the output index of an event. */
  at({ output_index: index }: Json, item: Json = {}): ItemReader {
    const place = typeof index === 'number' ? index : Math.max(0, this.#items.size - 1);
    const known = this.#items.get(place);
    if (known) return known;
    const made = new ItemReader(item['type'], item['type'] === 'function_call' ? this.#calls++ : undefined);
    this.#items.set(place, made);
    return made;
  }

  begin(event: Json): AnswerEvent[] {
    const { item } = event;
    if (!isRecord(item)) return [];
    const { output_index: index } = event;
    const place = typeof index === 'number' ? index : this.#items.size;
    if (this.#items.has(place)) return [];
    return this.at({ output_index: place }, item).begin(item);
  }

  finish(event: Json): AnswerEvent[] {
    const { item, output_index: index } = event;
    if (!isRecord(item)) return [];
    const place = typeof index === 'number' ? index : Math.max(0, this.#items.size - 1);
    const begun = this.begin({ item, output_index: place });
    return [...begun, ...this.at({ output_index: place }).end(item)];
  }

  /** The last event contains the complete answer: whatever no earlier event contained is read now. */
  complete(event: Json): AnswerEvent[] {
    const response = isRecord(event['response']) ? event['response'] : {};
    this.#over = true;
    return [
      ...this.#rest(response),
      ...usageOf(response),
      finishOf(
        { status: event['type'] === 'response.incomplete' ? 'incomplete' : 'completed', ...response },
        this.#calls,
      ),
    ];
  }

  failed(event: Json): AnswerEvent[] {
    const response = isRecord(event['response']) ? event['response'] : {};
    const said = isRecord(response['error']) ? response['error'] : {};
    return [...usageOf(response), ...this.#fail(this.#failure ?? failureOf(said))];
  }

  /** Nested as OpenAI sends it, or flat as OpenAI documents it. */
  error(event: Json): AnswerEvent[] {
    const nested = event['error'];
    if (isRecord(nested)) this.#failure = failureOf(nested);
    else {
      const { type: _, ...words } = event;
      this.#failure = failureOf(typeof nested === 'string' ? { message: nested } : words);
    }
    return [];
  }

  #rest({ output }: Json): AnswerEvent[] {
    const items = Array.isArray(output) ? output.filter(isRecord) : [];
    const places = items.map((item, index) => this.#placeOf(item, index, items));
    return items.flatMap((item, index) => this.finish({ item, output_index: places[index] }));
  }

  /**
   * The output index in the stream of an item of the complete answer. Some servers number the two differently: where at
   * least as many items of the type were streamed, the item in the same order is used, so that nothing is read twice.
   */
  #placeOf({ type }: Json, index: number, items: readonly Json[]): number {
    const streamed = [...this.#items].filter(([, item]) => item.type === type).map(([place]) => place);
    if (streamed.length >= items.filter((item) => item['type'] === type).length)
      return streamed[items.slice(0, index).filter((item) => item['type'] === type).length] ?? index;
    const there = this.#items.get(index);
    // An index beyond all used ones.
    return there === undefined || there.type === type ? index : index + 1e9;
  }

  #fail(failure: Failure): AnswerEvent[] {
    this.#over = true;
    return [failure];
  }
}

const usageOf = (response: Json): AnswerEvent[] => {
  const usage = readUsage(response['usage']);
  return usage ? [{ type: 'usage', usage }] : [];
};

export function failureOf(words: Json): Failure {
  const { error, again } = faultInStream(words);
  return { type: 'failure', error, again };
}

const broken = (what: string): Failure => failed(`The provider's stream had ${what}`);

function failed(what: string): Failure {
  const error = new WireError(502, 'upstream_error', `${what}; try again.`, { code: 'upstream_failed' });
  return { type: 'failure', error, again: true };
}

const placeOf = (place: unknown): number => (typeof place === 'number' ? place : 0);
const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');

type Read = (reader: ResponseReader, event: Json) => AnswerEvent[];

const readTrace: Read = (reader, event) =>
  reader.at(event).thought('content', placeOf(event['content_index']), textOf(event['delta']));

const readers: ReadonlyMap<string, Read> = new Map<string, Read>([
  ['response.created', (reader, event) => reader.start(event)],
  ['response.output_item.added', (reader, event) => reader.begin(event)],
  ['response.output_item.done', (reader, event) => reader.finish(event)],
  [
    'response.output_text.delta',
    (reader, event) =>
      reader.at(event).text(placeOf(event['content_index']), textOf(event['delta']), event['logprobs']),
  ],
  [
    'response.refusal.delta',
    (reader, event) => reader.at(event).refusal(placeOf(event['content_index']), textOf(event['delta'])),
  ],
  [
    'response.reasoning_summary_text.delta',
    (reader, event) =>
      reader.at(event).thought('summary', placeOf(event['summary_index']), textOf(event['delta'])),
  ],
  ['response.reasoning_text.delta', readTrace],
  // The event name in Open Responses.
  ['response.reasoning.delta', readTrace],
  [
    'response.function_call_arguments.delta',
    (reader, event) => reader.at(event).arguments(textOf(event['delta'])),
  ],
  ['response.completed', (reader, event) => reader.complete(event)],
  ['response.incomplete', (reader, event) => reader.complete(event)],
  ['response.failed', (reader, event) => reader.failed(event)],
  ['response.cancelled', (reader, event) => reader.failed(event)],
  ['error', (reader, event) => reader.error(event)],
]);

/** Whether events of this name are read. */
export const isRead = (name: string): boolean => readers.has(name);
