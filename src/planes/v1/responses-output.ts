import { freshId } from '../turn/ids.ts';
import { isJson } from '../turn/is-json.ts';
import type {
  CallItem,
  ItemStatus,
  MessageItem,
  OutputItem,
  ReasoningItem,
  ResponseEvent,
  ResponseLogprob,
  TextPart,
  TracePart,
} from './responses-schema.ts';

/** An event before it has its number. */
export type Unnumbered<Event = ResponseEvent> = Event extends ResponseEvent
  ? Omit<Event, 'sequence_number'>
  : never;
type Events = Generator<Unnumbered, void, undefined>;

/** An item of the answer while it is being made. */
export interface OpenItem {
  /** What has been made so far. */
  item(status: ItemStatus): OutputItem;
  begin(): Events;
  end(status: ItemStatus): Events;
}

const partAt = (id: string, index: number) => ({
  item_id: id,
  output_index: index,
  content_index: 0 as const,
});

export class OpenReasoning implements OpenItem {
  readonly #id = freshId('rs');
  readonly #index: number;
  #text = '';

  constructor(index: number) {
    this.#index = index;
  }

  *begin(): Events {
    const item = { ...this.item('in_progress'), content: [] };
    yield { type: 'response.output_item.added', output_index: this.#index, item };
    yield { type: 'response.content_part.added', ...partAt(this.#id, this.#index), part: this.#part() };
  }

  *delta(text: string): Events {
    this.#text += text;
    yield { type: 'response.reasoning_text.delta', ...partAt(this.#id, this.#index), delta: text };
  }

  *end(status: ItemStatus): Events {
    const at = partAt(this.#id, this.#index);
    yield { type: 'response.reasoning_text.done', ...at, text: this.#text };
    yield { type: 'response.content_part.done', ...at, part: this.#part() };
    yield { type: 'response.output_item.done', output_index: this.#index, item: this.item(status) };
  }

  item(status: ItemStatus): ReasoningItem {
    const content = [this.#part()];
    return { id: this.#id, type: 'reasoning', status, summary: [], content, encrypted_content: null };
  }

  #part(): TracePart {
    return { type: 'reasoning_text', text: this.#text };
  }
}

export class OpenMessage implements OpenItem {
  readonly #id = freshId('msg');
  readonly #index: number;
  readonly #logprobs: ResponseLogprob[] = [];
  #text = '';

  constructor(index: number) {
    this.#index = index;
  }

  *begin(): Events {
    const item = { ...this.item('in_progress'), content: [] };
    yield { type: 'response.output_item.added', output_index: this.#index, item };
    yield { type: 'response.content_part.added', ...partAt(this.#id, this.#index), part: this.#part() };
  }

  *delta(text: string, logprobs: readonly ResponseLogprob[]): Events {
    this.#text += text;
    this.#logprobs.push(...logprobs);
    const at = partAt(this.#id, this.#index);
    yield { type: 'response.output_text.delta', ...at, delta: text, logprobs: [...logprobs] };
  }

  *end(status: ItemStatus): Events {
    const at = partAt(this.#id, this.#index);
    yield { type: 'response.output_text.done', ...at, text: this.#text, logprobs: [...this.#logprobs] };
    yield { type: 'response.content_part.done', ...at, part: this.#part() };
    yield { type: 'response.output_item.done', output_index: this.#index, item: this.item(status) };
  }

  item(status: ItemStatus): MessageItem {
    return { id: this.#id, type: 'message', status, role: 'assistant', content: [this.#part()] };
  }

  #part(): TextPart {
    return { type: 'output_text', text: this.#text, annotations: [], logprobs: [...this.#logprobs] };
  }
}

export class OpenCall implements OpenItem {
  readonly #id = freshId('fc');
  readonly #index: number;
  readonly #callId: string;
  readonly #name: string;
  #arguments = '';

  constructor(index: number, callId: string, name: string) {
    this.#index = index;
    this.#callId = callId;
    this.#name = name;
  }

  *begin(): Events {
    const item = this.item('in_progress');
    yield { type: 'response.output_item.added', output_index: this.#index, item };
  }

  *delta(text: string): Events {
    this.#arguments += text;
    const at = { item_id: this.#id, output_index: this.#index };
    yield { type: 'response.function_call_arguments.delta', ...at, delta: text };
  }

  *end(status: ItemStatus): Events {
    const at = { item_id: this.#id, output_index: this.#index };
    const whole = { name: this.#name, arguments: this.#arguments };
    yield { type: 'response.function_call_arguments.done', ...at, ...whole };
    yield { type: 'response.output_item.done', output_index: this.#index, item: this.item(status) };
  }

  /** One whose arguments are cut off is not to be run, whatever ended the answer. */
  item(asked: ItemStatus): CallItem {
    const status = asked === 'completed' && !isJson(this.#arguments) ? 'incomplete' : asked;
    const call = { call_id: this.#callId, name: this.#name, arguments: this.#arguments };
    return { id: this.#id, type: 'function_call', status, ...call };
  }
}
