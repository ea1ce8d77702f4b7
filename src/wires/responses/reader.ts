import { isRecord, type Json } from '../../util/json.ts';
import { WireError } from '../core/error.ts';
import type { AnswerEvent } from '../core/answer.ts';
import { faultInStream } from '../core/provider-faults.ts';
import type { SseFrame, UpstreamReader } from '../core/wire.ts';
import { createFinishEvent, OutputItemReader } from './items.ts';
import { readUsage } from './usage.ts';

type Failure = Extract<AnswerEvent, { type: 'failure' }>;

/** Reads the events of a response; unknown events are ignored. */
export class ResponseReader implements UpstreamReader {
  /** Items by output index. */
  readonly #itemReaders = new Map<number, OutputItemReader>();
  #callCount = 0;
  /** `id` of the first `response.created`; empty where it has none. */
  #id: string | undefined;
  /** Failure of an `error` event; the next event may contain usage. */
  #failure: Failure | undefined;
  #isOver = false;

  push({ event: name, data }: SseFrame): AnswerEvent[] {
    if (this.#isOver || data === '' || data === '[DONE]') return [];
    let event: unknown;
    try {
      event = JSON.parse(data);
    } catch {
      return this.#fail(brokenStreamFailure('an event that is not JSON'));
    }
    if (!isRecord(event)) return this.#fail(brokenStreamFailure('an event that is not an object'));
    const type = event['type'] ?? name;
    if (this.#failure && type !== 'response.failed') return this.#fail(this.#failure);
    const readEvent = typeof type === 'string' ? readers.get(type) : undefined;
    if (readEvent) return readEvent(this, event);
    // Some servers report errors in the format of the chat wire.
    return isRecord(event['error']) && type === undefined ? this.error(event) : [];
  }

  end(): AnswerEvent[] {
    return this.#isOver ? [] : this.#fail(this.#failure ?? brokenStreamFailure('no end'));
  }

  /** Whether an `error` arrived whose failure was not returned yet. */
  get isFailing(): boolean {
    return this.#failure !== undefined && !this.#isOver;
  }

  /** Some providers give each event its own id, so only a second `response.created` indicates a second answer. */
  start({ response }: Json): AnswerEvent[] {
    const id = isRecord(response) && typeof response['id'] === 'string' ? response['id'] : '';
    if (this.#id !== undefined)
      return id === this.#id && this.#itemReaders.size === 0
        ? []
        : this.#fail(createFailure('The provider began a second answer within its stream'));
    this.#id = id;
    return id === '' ? [] : [{ type: 'start', id }];
  }

  /** The item at the output index of an event. */
  itemAt({ output_index: index }: Json, item: Json = {}): OutputItemReader {
    const outputIndex = typeof index === 'number' ? index : Math.max(0, this.#itemReaders.size - 1);
    const existing = this.#itemReaders.get(outputIndex);
    if (existing) return existing;
    const itemReader = new OutputItemReader(
      item['type'],
      item['type'] === 'function_call' ? this.#callCount++ : undefined,
    );
    this.#itemReaders.set(outputIndex, itemReader);
    return itemReader;
  }

  begin(event: Json): AnswerEvent[] {
    const { item } = event;
    if (!isRecord(item)) return [];
    const { output_index: index } = event;
    const outputIndex = typeof index === 'number' ? index : this.#itemReaders.size;
    if (this.#itemReaders.has(outputIndex)) return [];
    return this.itemAt({ output_index: outputIndex }, item).begin(item);
  }

  finish(event: Json): AnswerEvent[] {
    const { item, output_index: index } = event;
    if (!isRecord(item)) return [];
    const outputIndex = typeof index === 'number' ? index : Math.max(0, this.#itemReaders.size - 1);
    const startEvents = this.begin({ item, output_index: outputIndex });
    return [...startEvents, ...this.itemAt({ output_index: outputIndex }).end(item)];
  }

  /** The last event contains the complete answer: whatever no earlier event contained is read now. */
  complete(event: Json): AnswerEvent[] {
    const response = isRecord(event['response']) ? event['response'] : {};
    this.#isOver = true;
    return [
      ...this.#readRemaining(response),
      ...toUsageEvents(response),
      createFinishEvent(
        { status: event['type'] === 'response.incomplete' ? 'incomplete' : 'completed', ...response },
        this.#callCount,
      ),
    ];
  }

  createFailure(event: Json): AnswerEvent[] {
    const response = isRecord(event['response']) ? event['response'] : {};
    const errorMember = isRecord(response['error']) ? response['error'] : {};
    return [...toUsageEvents(response), ...this.#fail(this.#failure ?? toFailureEvent(errorMember))];
  }

  /** Nested as OpenAI sends it, or flat as OpenAI documents it. */
  error(event: Json): AnswerEvent[] {
    const nested = event['error'];
    if (isRecord(nested)) this.#failure = toFailureEvent(nested);
    else {
      const { type: _, ...errorFields } = event;
      this.#failure = toFailureEvent(typeof nested === 'string' ? { message: nested } : errorFields);
    }
    return [];
  }

  #readRemaining({ output }: Json): AnswerEvent[] {
    const items = Array.isArray(output) ? output.filter(isRecord) : [];
    const outputIndices = items.map((item, index) => this.#findOutputIndex(item, index, items));
    return items.flatMap((item, index) => this.finish({ item, output_index: outputIndices[index] }));
  }

  /**
   * The output index in the stream of an item of the complete answer. Some servers number the two differently: where at
   * least as many items of the type were streamed, the item in the same order is used, so that nothing is read twice.
   */
  #findOutputIndex({ type }: Json, index: number, items: readonly Json[]): number {
    const streamed = [...this.#itemReaders]
      .filter(([, item]) => item.type === type)
      .map(([outputIndex]) => outputIndex);
    if (streamed.length >= items.filter((item) => item['type'] === type).length)
      return streamed[items.slice(0, index).filter((item) => item['type'] === type).length] ?? index;
    const existing = this.#itemReaders.get(index);
    // An index beyond all used ones.
    return existing === undefined || existing.type === type ? index : index + 1e9;
  }

  #fail(failure: Failure): AnswerEvent[] {
    this.#isOver = true;
    return [failure];
  }
}

const toUsageEvents = (response: Json): AnswerEvent[] => {
  const usage = readUsage(response);
  return usage ? [{ type: 'usage', usage }] : [];
};

export function toFailureEvent(errorFields: Json): Failure {
  const { error, isRetryable } = faultInStream(errorFields);
  return { type: 'failure', error, isRetryable };
}

const brokenStreamFailure = (problem: string): Failure =>
  createFailure(`The provider's stream had ${problem}`);

function createFailure(problem: string): Failure {
  const error = new WireError(502, 'upstream_error', `${problem}; try again.`, { code: 'upstream_failed' });
  return { type: 'failure', error, isRetryable: true };
}

const toPartIndex = (outputIndex: unknown): number => (typeof outputIndex === 'number' ? outputIndex : 0);
const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');

type EventReader = (reader: ResponseReader, event: Json) => AnswerEvent[];

const readReasoningDelta: EventReader = (reader, event) =>
  reader.itemAt(event).addReasoning('content', toPartIndex(event['content_index']), textOf(event['delta']));

const readers: ReadonlyMap<string, EventReader> = new Map<string, EventReader>([
  ['response.created', (reader, event) => reader.start(event)],
  ['response.output_item.added', (reader, event) => reader.begin(event)],
  ['response.output_item.done', (reader, event) => reader.finish(event)],
  [
    'response.output_text.delta',
    (reader, event) =>
      reader
        .itemAt(event)
        .addText(toPartIndex(event['content_index']), textOf(event['delta']), event['logprobs']),
  ],
  [
    'response.refusal.delta',
    (reader, event) =>
      reader.itemAt(event).addRefusal(toPartIndex(event['content_index']), textOf(event['delta'])),
  ],
  [
    'response.reasoning_summary_text.delta',
    (reader, event) =>
      reader
        .itemAt(event)
        .addReasoning('summary', toPartIndex(event['summary_index']), textOf(event['delta'])),
  ],
  ['response.reasoning_text.delta', readReasoningDelta],
  // The event name in Open Responses.
  ['response.reasoning.delta', readReasoningDelta],
  [
    'response.function_call_arguments.delta',
    (reader, event) => reader.itemAt(event).addArguments(textOf(event['delta'])),
  ],
  ['response.completed', (reader, event) => reader.complete(event)],
  ['response.incomplete', (reader, event) => reader.complete(event)],
  ['response.failed', (reader, event) => reader.createFailure(event)],
  ['response.cancelled', (reader, event) => reader.createFailure(event)],
  ['error', (reader, event) => reader.error(event)],
]);

/** Whether events of this name are read. */
export const isKnownEvent = (name: string): boolean => readers.has(name);
