import { isRecord } from '../../util/json.ts';
import type { Usage } from '../core/types.ts';
import type { HttpError } from '../../http/error.ts';
import { errorObject } from '../core/error.ts';
import type { AnswerEvent, FinishReason, HostedItem } from '../core/answer.ts';
import type { AnswerMetadata } from '../core/wire.ts';
import { writeCommonMembers } from './common-members.ts';
import { OpenCustomCall } from './open-custom-call.ts';
import {
  type UnnumberedEvent,
  OpenCall,
  type OpenItem,
  OpenMessage,
  OpenReasoning,
  hostedItemEvents,
  type ItemStatus,
} from './open-items.ts';
import { writeUsage } from './usage.ts';

const incompleteReasons: Readonly<Partial<Record<FinishReason, string>>> = {
  length: 'max_output_tokens',
  content_filter: 'content_filter',
};

const toStatus = (reason: FinishReason | undefined) =>
  reason !== undefined && incompleteReasons[reason] !== undefined ? 'incomplete' : 'completed';

/**
 * Converts the events of an answer to those of a response, not yet numbered. The snapshot in the last event is the
 * complete response.
 */
export class ResponseEvents {
  readonly #commonMembers: Readonly<Record<string, unknown>>;
  readonly #isResident: boolean;
  /** Names of the custom tools of the request, whose calls have a text instead of arguments. */
  readonly #customTools: ReadonlySet<unknown>;
  /** Complete items by output index; undefined where one is still open. */
  readonly #items: (object | undefined)[] = [];
  /** The item that is being written, unless it is a call. */
  #openItem: { readonly outputIndex: number; readonly item: OpenMessage | OpenReasoning } | undefined;
  /** Open calls by call index. Several may be open, because some providers interleave their arguments. */
  readonly #openCalls = new Map<
    number,
    { readonly outputIndex: number; readonly item: OpenCall | OpenCustomCall }
  >();
  /** Output index of the items of the host's MCP servers by id. */
  readonly #hostedItems = new Map<string, number>();
  #hasBegun = false;
  #usage: Usage | undefined;
  #finishReason: FinishReason | undefined;

  constructor(metadata: AnswerMetadata) {
    this.#commonMembers = writeCommonMembers(metadata);
    this.#isResident = metadata.resident !== undefined;
    const { tools } = metadata.request.body;
    const custom = (this.#isResident && Array.isArray(tools) ? tools : []).filter(
      (tool) => isRecord(tool) && tool['type'] === 'custom',
    );
    this.#customTools = new Set(custom.map(({ name }: { readonly name: unknown }) => name));
  }

  add(event: AnswerEvent): UnnumberedEvent[] {
    if (event.type === 'usage') this.#usage = event.usage;
    if (event.type === 'finish') this.#finishReason = event.reason;
    if (this.#hasBegun) return this.#convert(event);
    return [...this.#start(), ...this.#convert(event)];
  }

  /** Returns the events after the end of the answer. */
  end(): UnnumberedEvent[] {
    const status = toStatus(this.#finishReason);
    const startEvents = this.#start();
    const closed = this.#closeAll(status);
    const response = this.#snapshot({
      status,
      usage: this.#usage ? writeUsage(this.#usage) : null,
      ...(status === 'completed'
        ? { completed_at: Math.floor(Date.now() / 1000) }
        : { incomplete_details: { reason: this.#finishReason && incompleteReasons[this.#finishReason] } }),
    });
    return [...startEvents, ...closed, { type: `response.${status}`, response }];
  }

  /** Returns the events for a failed answer, with its content so far. */
  fail(error: HttpError): UnnumberedEvent[] {
    // Streams of the resident model report a failure without a preceding start.
    const startEvents = this.#isResident ? [] : this.#start();
    if (this.#items.length > 0) this.#closeAll('incomplete');
    const response = this.#snapshot({
      status: 'failed',
      error: toResponseError(error),
      usage: this.#usage ? writeUsage(this.#usage) : null,
    });
    return [...startEvents, createErrorEvent(error), { type: 'response.failed', response }];
  }

  /** The response before its answer begins. */
  queue(): object {
    return this.#snapshot({ status: 'queued' });
  }

  /** The response where nobody waits for the rest of it, with its content so far. */
  cancel(): object {
    if (this.#items.length > 0) this.#closeAll('incomplete');
    return this.#snapshot({ status: 'cancelled', usage: this.#usage ? writeUsage(this.#usage) : null });
  }

  /** The complete response, as in the last event. */
  complete(): object {
    return this.end().at(-1)?.['response'] as object;
  }

  #start(): UnnumberedEvent[] {
    if (this.#hasBegun) return [];
    this.#hasBegun = true;
    const response = this.#snapshot({});
    return [
      { type: 'response.created', response },
      { type: 'response.in_progress', response },
    ];
  }

  #convert(event: AnswerEvent): UnnumberedEvent[] {
    switch (event.type) {
      case 'text': {
        if (event.text === '' && !event.logprobs?.length) return [];
        const { item, begun } = this.#ensureMessage();
        return [...begun, ...item.addText(event.text, event.logprobs)];
      }
      case 'refusal': {
        if (event.text === '') return [];
        const { item, begun } = this.#ensureMessage();
        return [...begun, ...item.addRefusal(event.text)];
      }
      case 'reasoning': {
        if (event.text === '') return [];
        const { item, begun } = this.#ensureReasoning();
        return [...begun, ...item.addDelta(event.text)];
      }
      case 'reasoning_signature': {
        const { item, begun } = this.#ensureReasoning();
        item.signature({ form: 'signature', signature: event.signature });
        return [...begun, ...this.#closeOpen('completed')];
      }
      case 'encrypted_reasoning': {
        const { data, id } = event;
        return this.#addSignatureItem({ form: 'sealed', data, ...(id === undefined ? {} : { id }) });
      }
      case 'tool_call': {
        const { index, id: callId, name, signature } = event;
        // The signature of a call is written in an item before it, because calls have no member for it.
        const signatureEvents =
          signature === undefined ? [] : this.#addSignatureItem({ form: 'call', callId, signature });
        const closed = [...signatureEvents, ...this.#closeOpen('completed'), ...this.#closeCompleteCalls()];
        const outputIndex = this.#outputIndex();
        const item = this.#customTools.has(name)
          ? new OpenCustomCall(outputIndex, { callId, name })
          : new OpenCall(outputIndex, { callId, name }, this.#isResident);
        this.#openCalls.set(index, { outputIndex, item });
        return [...closed, ...item.begin()];
      }
      case 'tool_arguments':
        return this.#addArguments(event);
      case 'hosted_item':
        return this.#addHostedItem(event.item);
      case 'finish':
        return this.#closeAll(toStatus(event.reason));
      case 'start':
      case 'progress':
      case 'usage':
      case 'hosted_call':
      case 'failure':
        return [];
    }
  }

  #addArguments({ index, text }: Extract<AnswerEvent, { type: 'tool_arguments' }>): UnnumberedEvent[] {
    const call = this.#openCalls.get(index);
    // A provider may send invalid events; the local engine must not.
    if (!call && this.#isResident) throw new Error('tool arguments arrived without a preceding call');
    return call && text !== '' ? call.item.addDelta(text) : [];
  }

  #addHostedItem(item: HostedItem): UnnumberedEvent[] {
    const known = this.#hostedItems.get(item.id);
    const closed = [...this.#closeOpen('completed'), ...this.#closeCompleteCalls()];
    const index = known ?? this.#outputIndex();
    this.#hostedItems.set(item.id, index);
    this.#items[index] = item;
    return [...closed, ...hostedItemEvents(index, item, known === undefined)];
  }

  #ensureMessage() {
    return this.#ensureItem(OpenMessage);
  }

  #ensureReasoning() {
    return this.#ensureItem(OpenReasoning);
  }

  #addSignatureItem(signature: Parameters<OpenReasoning['signature']>[0]): UnnumberedEvent[] {
    const closed = this.#closeOpen('completed');
    const { item, begun } = this.#ensureReasoning();
    item.signature(signature);
    return [...closed, ...begun, ...this.#closeOpen('completed')];
  }

  #ensureItem<Item extends OpenMessage | OpenReasoning>(
    Kind: new (outputIndex: number, isResident: boolean) => Item,
  ): { readonly item: Item; readonly begun: UnnumberedEvent[] } {
    if (this.#openItem?.item instanceof Kind) return { item: this.#openItem.item, begun: [] };
    const closed = [...this.#closeOpen('completed'), ...this.#closeCompleteCalls()];
    const outputIndex = this.#outputIndex();
    const item = new Kind(outputIndex, this.#isResident);
    this.#openItem = { outputIndex, item };
    return { item, begun: [...closed, ...item.begin()] };
  }

  /** Allocates the output index of the next item. */
  #outputIndex(): number {
    return this.#items.push(undefined) - 1;
  }

  #closeOpen(status: ItemStatus): UnnumberedEvent[] {
    if (!this.#openItem) return [];
    const { outputIndex, item } = this.#openItem;
    this.#openItem = undefined;
    return this.#close(outputIndex, item, status);
  }

  /** Closes the calls with complete arguments when another item begins. */
  #closeCompleteCalls(): UnnumberedEvent[] {
    return [...this.#openCalls].flatMap(([index, { outputIndex, item }]) => {
      if (!item.isComplete) return [];
      this.#openCalls.delete(index);
      return this.#close(outputIndex, item, 'completed');
    });
  }

  #closeAll(status: ItemStatus): UnnumberedEvent[] {
    // Clients expect a message, even an empty one.
    const message = this.#items.length === 0 ? this.#ensureMessage().begun : [];
    const calls = [...this.#openCalls.values()].flatMap(({ outputIndex, item }) =>
      this.#close(outputIndex, item, status),
    );
    this.#openCalls.clear();
    return [...message, ...calls, ...this.#closeOpen(status)];
  }

  #close(outputIndex: number, item: OpenItem, status: ItemStatus): UnnumberedEvent[] {
    const endEvents = item.end(status);
    this.#items[outputIndex] = item.item(status);
    return endEvents;
  }

  #snapshot(changes: Readonly<Record<string, unknown>>): object {
    return {
      ...this.#commonMembers,
      status: 'in_progress',
      completed_at: null,
      output: this.#items.filter((item) => item !== undefined),
      error: null,
      incomplete_details: null,
      usage: null,
      ...changes,
    };
  }
}

/** Writes both forms of an error event: OpenAI documents the flat one and sends the nested one. */
export const createErrorEvent = (error: HttpError): UnnumberedEvent => {
  const errorMembers = errorObject(error);
  const { message, param, code } = errorMembers;
  return { type: 'error', code, message, param, error: errorMembers };
};

/** The error member of a failed response. Only these codes of OpenAI's documented list apply. */
export function toResponseError({ status, message }: HttpError): object {
  if (status === 429) return { code: 'rate_limit_exceeded', message };
  return { code: status === 400 || status === 422 ? 'invalid_prompt' : 'server_error', message };
}

/** Writes an event as an SSE frame. @param number sequence number in the stream, from 0 */
export const sseFrame = (event: UnnumberedEvent, number: number): string =>
  `event: ${event.type}\ndata: {"sequence_number":${number},${JSON.stringify(event).slice(1)}\n\n`;
