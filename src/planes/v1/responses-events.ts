import type { TokenLogprob, Usage } from '../../engine/index.ts';
import type { HttpError } from '../../http/error.ts';
import type { ChatEnd, ChatEvent } from '../turn/chat.ts';
import { toOpenAIError } from './envelope.ts';
import { OpenCall, type OpenItem, OpenMessage, OpenReasoning, type Unnumbered } from './responses-output.ts';
import type {
  OutputItem,
  ResponseEvent,
  ResponseHead,
  ResponseLogprob,
  ResponseObject,
} from './responses-schema.ts';

type Events = Generator<Unnumbered, void, undefined>;
type ToLogprobs = (entries: readonly TokenLogprob[]) => readonly ResponseLogprob[];

/** Writes one answer as the events of a response; the last one's snapshot is the whole response. */
export class ResponseWriter {
  readonly #head: ResponseHead;
  readonly #toLogprobs: ToLogprobs;
  readonly #done: OutputItem[] = [];
  #open: OpenItem | undefined;
  #begun = false;
  #next = 0;

  constructor(head: ResponseHead, toLogprobs: ToLogprobs) {
    this.#head = head;
    this.#toLogprobs = toLogprobs;
  }

  *take(event: ChatEvent): Generator<ResponseEvent, void, undefined> {
    for (const made of this.#events(event)) yield this.#numbered(made);
  }

  /** What broke the answer, and what there was of it. */
  *fail(problem: HttpError): Generator<ResponseEvent, void, undefined> {
    const { type, code, message, param } = toOpenAIError(problem);
    yield this.#numbered({ type: 'error', error: { type, code, message, param } });
    if (this.#open) this.#done.push(this.#open.item('incomplete'));
    this.#open = undefined;
    // The only codes that the wire knows and that can happen here.
    const failure = { code: problem.status === 429 ? 'rate_limit_exceeded' : 'server_error', message };
    const response = this.#snapshot({ status: 'failed', error: failure });
    yield this.#numbered({ type: 'response.failed', response });
  }

  #numbered(event: Unnumbered): ResponseEvent {
    const { type, ...members } = event;
    return { type, sequence_number: this.#next++, ...members } as ResponseEvent;
  }

  *#events(event: ChatEvent): Events {
    if (event.type === 'prompt') return;
    if (!this.#begun) {
      this.#begun = true;
      yield { type: 'response.created', response: this.#snapshot({}) };
      yield { type: 'response.in_progress', response: this.#snapshot({}) };
    }
    switch (event.type) {
      case 'reasoning': {
        const item = this.#open instanceof OpenReasoning ? this.#open : new OpenReasoning(this.#index());
        yield* this.#turnTo(item);
        yield* item.delta(event.text);
        return;
      }
      case 'content': {
        const item = this.#open instanceof OpenMessage ? this.#open : new OpenMessage(this.#index());
        yield* this.#turnTo(item);
        yield* item.delta(event.text, this.#toLogprobs(event.logprobs ?? []));
        return;
      }
      case 'tool_call':
        yield* this.#turnTo(new OpenCall(this.#index(), event.id, event.name));
        return;
      case 'tool_arguments':
        if (!(this.#open instanceof OpenCall)) throw new Error('arguments came without their call');
        yield* this.#open.delta(event.text);
        return;
      case 'end':
        yield* this.#finish(event);
    }
  }

  /** The place of the item after the open one. */
  #index(): number {
    return this.#done.length + (this.#open ? 1 : 0);
  }

  *#turnTo(item: OpenItem): Events {
    if (this.#open === item) return;
    yield* this.#close('completed');
    this.#open = item;
    yield* item.begin();
  }

  *#close(status: 'completed' | 'incomplete'): Events {
    if (!this.#open) return;
    yield* this.#open.end(status);
    this.#done.push(this.#open.item(status));
    this.#open = undefined;
  }

  *#finish({ finishReason, usage, reasoningTokens }: ChatEnd): Events {
    const status = finishReason === 'length' ? 'incomplete' : 'completed';
    // Clients look for a message, also where it is empty.
    if (this.#index() === 0) yield* this.#turnTo(new OpenMessage(0));
    yield* this.#close(status);
    const cut = { incomplete_details: { reason: 'max_output_tokens' as const } };
    const end = { completed_at: Math.floor(Date.now() / 1000) };
    const response = this.#snapshot({
      status,
      ...(status === 'incomplete' ? cut : end),
      usage: toResponseUsage(usage, reasoningTokens),
    });
    yield { type: `response.${status}`, response };
  }

  #snapshot(now: Partial<ResponseObject>): ResponseObject {
    return {
      ...this.#head,
      status: 'in_progress',
      completed_at: null,
      output: [...this.#done],
      error: null,
      incomplete_details: null,
      usage: null,
      ...now,
    };
  }
}

function toResponseUsage(usage: Usage, reasoningTokens: number): NonNullable<ResponseObject['usage']> {
  return {
    input_tokens: usage.prompt_tokens,
    input_tokens_details: { cached_tokens: usage.cached_tokens, cache_write_tokens: 0 },
    output_tokens: usage.completion_tokens,
    output_tokens_details: { reasoning_tokens: reasoningTokens },
    total_tokens: usage.prompt_tokens + usage.completion_tokens,
  };
}
