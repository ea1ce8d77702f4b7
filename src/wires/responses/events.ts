import type { Usage } from '../core/types.ts';
import type { HttpError } from '../../http/error.ts';
import { errorObject } from '../core/error.ts';
import type { AnswerEvent, FinishReason } from '../core/answer.ts';
import type { AnswerAbout } from '../core/wire.ts';
import { headOf } from './head.ts';
import {
  type Made,
  OpenCall,
  type OpenItem,
  OpenMessage,
  OpenReasoning,
  type ItemStatus,
} from './open-items.ts';
import { writeUsage } from './usage.ts';

const cutReasons: Readonly<Partial<Record<FinishReason, string>>> = {
  length: 'max_output_tokens',
  content_filter: 'content_filter',
};

const statusOf = (reason: FinishReason | undefined) =>
  reason !== undefined && cutReasons[reason] !== undefined ? 'incomplete' : 'completed';

/**
 * Converts the events of an answer to those of a response, not yet numbered. The snapshot in the last event is the
 * complete response.
 */
export class ResponseEvents {
  readonly #head: Readonly<Record<string, unknown>>;
  readonly #isResident: boolean;
  /** Complete items by output index; undefined where one is still open. */
  readonly #items: (object | undefined)[] = [];
  /** The item that is being written, unless it is a call. */
  #open: { readonly place: number; readonly item: OpenMessage | OpenReasoning } | undefined;
  /** Open calls by call index. Several may be open, because some providers interleave their arguments. */
  readonly #calls = new Map<number, { readonly place: number; readonly item: OpenCall }>();
  #begun = false;
  #usage: Usage | undefined;
  #finish: FinishReason | undefined;

  constructor(about: AnswerAbout) {
    this.#head = headOf(about);
    this.#isResident = about.resident !== undefined;
  }

  take(event: AnswerEvent): Made[] {
    if (event.type === 'usage') this.#usage = event.usage;
    if (event.type === 'finish') this.#finish = event.reason;
    if (this.#begun) return this.#made(event);
    return [...this.#begin(), ...this.#made(event)];
  }

  /** Returns the events after the end of the answer. */
  end(): Made[] {
    const status = statusOf(this.#finish);
    const begun = this.#begin();
    const closed = this.#closeAll(status);
    const response = this.#snapshot({
      status,
      usage: this.#usage ? writeUsage(this.#usage) : null,
      ...(status === 'completed'
        ? { completed_at: Math.floor(Date.now() / 1000) }
        : { incomplete_details: { reason: this.#finish && cutReasons[this.#finish] } }),
    });
    return [...begun, ...closed, { type: `response.${status}`, response }];
  }

  /** Returns the events for a failed answer, with its content so far. */
  fail(error: HttpError): Made[] {
    // Streams of the resident model report a failure without a preceding start.
    const begun = this.#isResident ? [] : this.#begin();
    if (this.#items.length > 0) this.#closeAll('incomplete');
    const response = this.#snapshot({
      status: 'failed',
      error: responseError(error),
      usage: this.#usage ? writeUsage(this.#usage) : null,
    });
    return [...begun, errorEvent(error), { type: 'response.failed', response }];
  }

  /** The complete response, as in the last event. */
  whole(): object {
    return this.end().at(-1)?.['response'] as object;
  }

  #begin(): Made[] {
    if (this.#begun) return [];
    this.#begun = true;
    const response = this.#snapshot({});
    return [
      { type: 'response.created', response },
      { type: 'response.in_progress', response },
    ];
  }

  #made(event: AnswerEvent): Made[] {
    switch (event.type) {
      case 'text': {
        if (event.text === '' && !event.logprobs?.length) return [];
        const { item, begun } = this.#message();
        return [...begun, ...item.text(event.text, event.logprobs)];
      }
      case 'refusal': {
        if (event.text === '') return [];
        const { item, begun } = this.#message();
        return [...begun, ...item.refuse(event.text)];
      }
      case 'reasoning': {
        if (event.text === '') return [];
        const { item, begun } = this.#reasoning();
        return [...begun, ...item.delta(event.text)];
      }
      case 'reasoning_signature': {
        const { item, begun } = this.#reasoning();
        item.seal({ form: 'signature', signature: event.signature });
        return [...begun, ...this.#closeOpen('completed')];
      }
      case 'sealed_reasoning': {
        const { data, id } = event;
        return this.#sealed({ form: 'sealed', data, ...(id === undefined ? {} : { id }) });
      }
      case 'tool_call': {
        const { index, id: callId, name, signature } = event;
        // The signature of a call is written in an item before it, because calls have no member for it.
        const seal = signature === undefined ? [] : this.#sealed({ form: 'call', callId, signature });
        const closed = [...seal, ...this.#closeOpen('completed'), ...this.#closeWholeCalls()];
        const place = this.#place();
        const item = new OpenCall(place, { callId, name }, this.#isResident);
        this.#calls.set(index, { place, item });
        return [...closed, ...item.begin()];
      }
      case 'tool_arguments':
        return this.#argue(event);
      case 'finish':
        return this.#closeAll(statusOf(event.reason));
      case 'start':
      case 'progress':
      case 'usage':
      case 'failure':
        return [];
    }
  }

  #argue({ index, text }: Extract<AnswerEvent, { type: 'tool_arguments' }>): Made[] {
    const call = this.#calls.get(index);
    // A provider may send invalid events; the local engine must not.
    if (!call && this.#isResident) throw new Error('tool arguments arrived without a preceding call');
    return call && text !== '' ? call.item.delta(text) : [];
  }

  #message() {
    return this.#turnTo(OpenMessage);
  }

  #reasoning() {
    return this.#turnTo(OpenReasoning);
  }

  #sealed(seal: Parameters<OpenReasoning['seal']>[0]): Made[] {
    const closed = this.#closeOpen('completed');
    const { item, begun } = this.#reasoning();
    item.seal(seal);
    return [...closed, ...begun, ...this.#closeOpen('completed')];
  }

  #turnTo<Item extends OpenMessage | OpenReasoning>(
    Kind: new (place: number, isResident: boolean) => Item,
  ): { readonly item: Item; readonly begun: Made[] } {
    if (this.#open?.item instanceof Kind) return { item: this.#open.item, begun: [] };
    const closed = [...this.#closeOpen('completed'), ...this.#closeWholeCalls()];
    const place = this.#place();
    const item = new Kind(place, this.#isResident);
    this.#open = { place, item };
    return { item, begun: [...closed, ...item.begin()] };
  }

  /** Allocates the output index of the next item. */
  #place(): number {
    return this.#items.push(undefined) - 1;
  }

  #closeOpen(status: ItemStatus): Made[] {
    if (!this.#open) return [];
    const { place, item } = this.#open;
    this.#open = undefined;
    return this.#close(place, item, status);
  }

  /** Closes the calls with complete arguments when another item begins. */
  #closeWholeCalls(): Made[] {
    return [...this.#calls].flatMap(([index, { place, item }]) => {
      if (!item.isWhole) return [];
      this.#calls.delete(index);
      return this.#close(place, item, 'completed');
    });
  }

  #closeAll(status: ItemStatus): Made[] {
    // Clients expect a message, even an empty one.
    const message = this.#items.length === 0 ? this.#message().begun : [];
    const calls = [...this.#calls.values()].flatMap(({ place, item }) => this.#close(place, item, status));
    this.#calls.clear();
    return [...message, ...calls, ...this.#closeOpen(status)];
  }

  #close(place: number, item: OpenItem, status: ItemStatus): Made[] {
    const made = item.end(status);
    this.#items[place] = item.item(status);
    return made;
  }

  #snapshot(now: Readonly<Record<string, unknown>>): object {
    return {
      ...this.#head,
      status: 'in_progress',
      completed_at: null,
      output: this.#items.filter((item) => item !== undefined),
      error: null,
      incomplete_details: null,
      usage: null,
      ...now,
    };
  }
}

/** Writes both forms of an error event: OpenAI documents the flat one and sends the nested one. */
export const errorEvent = (error: HttpError): Made => {
  const shown = errorObject(error);
  const { message, param, code } = shown;
  return { type: 'error', code, message, param, error: shown };
};

/** The error member of a failed response. Only these codes of OpenAI's documented list apply. */
export function responseError({ status, message }: HttpError): object {
  if (status === 429) return { code: 'rate_limit_exceeded', message };
  return { code: status === 400 || status === 422 ? 'invalid_prompt' : 'server_error', message };
}

/** Writes an event as an SSE frame. @param number sequence number in the stream, from 0 */
export const framed = (event: Made, number: number): string =>
  `event: ${event.type}\ndata: {"sequence_number":${number},${JSON.stringify(event).slice(1)}\n\n`;
