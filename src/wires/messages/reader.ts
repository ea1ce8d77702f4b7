import { isRecord, type Json } from '../../util/json.ts';
import { WireError } from '../core/error.ts';
import type { AnswerEvent } from '../core/answer.ts';
import { faultInStream } from '../core/provider-faults.ts';
import { tagSignature } from '../core/reasoning-signatures.ts';
import type { SseFrame, UpstreamReader } from '../core/wire.ts';
import { parseExact } from '../core/json.ts';
import { readRefusalExplanation, readStop } from './stop-reasons.ts';
import { UsageMeter } from './usage.ts';

/** A call whose arguments may still arrive; blocks of other types need no state. */
interface OpenCall {
  readonly index: number;
  /** Input at the start of the block; used only where no deltas follow. */
  readonly input: string;
  hasDeltas: boolean;
}

/** Reads a stream, or a complete message as a stream that begins with all its content. */
export class MessagesReader implements UpstreamReader {
  readonly #usageMeter = new UsageMeter();
  /** Keyed by block index, which counts blocks of all types. */
  readonly #openCalls = new Map<unknown, OpenCall>();
  #callCount = 0;
  /** Id of the message; empty where it has none; undefined before the message begins. */
  #id: string | undefined;
  #hasContent = false;
  #isFinished = false;
  #isOver = false;
  /** The stop members of a message that arrived with its content. */
  #stopMembers: Json = {};

  push(frame: SseFrame): AnswerEvent[] {
    if (this.#isOver || frame.data === '') return [];
    let event: unknown;
    try {
      event = parseExact(frame.data);
    } catch {
      event = undefined;
    }
    if (frame.event === 'error') return this.#readError(event ?? { error: { message: frame.data } });
    if (!isRecord(event))
      return this.#fail('The provider sent an event that is not a JSON object; try again.');
    return this.read(event);
  }

  read(event: Json): AnswerEvent[] {
    switch (event.type) {
      case 'content_block_delta':
        return isRecord(event.delta) ? this.#readDelta(event.index, event.delta) : [];
      case 'content_block_start':
        return isRecord(event.content_block) ? this.#readBlock(event.index, event.content_block) : [];
      case 'content_block_stop':
        return this.#endBlock(event.index);
      case 'message_start':
        return isRecord(event.message) ? this.#start(event.message) : [];
      case 'message_delta':
        return this.#readMessageDelta(event);
      case 'message_stop':
        this.#isOver = true;
        return this.#finish(this.#stopMembers);
      case 'error':
        return this.#readError(event);
      default:
        // `ping` and future event types.
        return [];
    }
  }

  /** Whether the last event arrived. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** The stop reason is the last required information; `message_stop` may be missing. */
  end(): AnswerEvent[] {
    if (this.#isOver || this.#isFinished) return [];
    return this.#fail('The provider broke off in the middle of its answer; try again.');
  }

  /**
   * Some providers send `message_start` twice, the second time with usage only. A different message is an error.
   */
  #start(message: Json): AnswerEvent[] {
    const id = typeof message.id === 'string' ? message.id : '';
    if (this.#id !== undefined) {
      const isSame = id !== '' && this.#id !== '' ? id === this.#id : !this.#hasContent;
      return isSame
        ? this.#readUsage(message.usage)
        : this.#fail('The provider began a second message within its stream; try again.');
    }
    this.#id = id;
    const usage = this.#readUsage(message.usage);
    const events: AnswerEvent[] = [
      typeof message.id === 'string' ? { type: 'start', id: message.id } : { type: 'start' },
      ...usage,
    ];
    if (Array.isArray(message.content)) {
      message.content.forEach((block, n) => {
        const index = `start ${n}`;
        if (isRecord(block)) events.push(...this.#readBlock(index, block), ...this.#endBlock(index));
      });
    }
    this.#stopMembers = message;
    return events;
  }

  #readBlock(index: unknown, block: Json): AnswerEvent[] {
    this.#hasContent = true;
    switch (block.type) {
      case 'text':
        return textEvent('text', block.text);
      case 'thinking': {
        const events = textEvent('reasoning', block.thinking);
        if (typeof block.signature === 'string' && block.signature !== '')
          events.push(signatureEvent(block.signature));
        return events;
      }
      case 'redacted_thinking':
        return typeof block.data === 'string'
          ? [{ type: 'encrypted_reasoning', data: tagSignature('anthropic', block.data) }]
          : [];
      case 'tool_use': {
        const call: OpenCall = {
          index: this.#callCount++,
          input: JSON.stringify(block.input ?? {}),
          hasDeltas: false,
        };
        this.#openCalls.set(index, call);
        return [{ type: 'tool_call', index: call.index, id: String(block.id), name: String(block.name) }];
      }
      default:
        // Provider-run tools, their results and summaries cannot be expressed on other wires.
        return [];
    }
  }

  #readDelta(index: unknown, delta: Json): AnswerEvent[] {
    switch (delta.type) {
      case 'text_delta':
        return textEvent('text', delta.text);
      case 'thinking_delta':
        return textEvent('reasoning', delta.thinking);
      case 'signature_delta':
        return typeof delta.signature === 'string' && delta.signature !== ''
          ? [signatureEvent(delta.signature)]
          : [];
      case 'input_json_delta': {
        const call = this.#openCalls.get(index);
        if (!call || typeof delta.partial_json !== 'string' || delta.partial_json === '') return [];
        call.hasDeltas = true;
        return [{ type: 'tool_arguments', index: call.index, text: delta.partial_json }];
      }
      default:
        return [];
    }
  }

  #endBlock(index: unknown): AnswerEvent[] {
    const call = this.#openCalls.get(index);
    if (!call) return [];
    this.#openCalls.delete(index);
    return call.hasDeltas ? [] : [{ type: 'tool_arguments', index: call.index, text: call.input }];
  }

  #readMessageDelta({ delta, usage }: Json): AnswerEvent[] {
    const events = isRecord(delta) && typeof delta.stop_reason === 'string' ? this.#finish(delta) : [];
    return [...events, ...this.#readUsage(usage)];
  }

  #finish(members: Json): AnswerEvent[] {
    if (this.#isFinished) return [];
    this.#isFinished = true;
    const explanation = readRefusalExplanation(members.stop_details);
    return [
      ...(explanation === undefined ? [] : [{ type: 'refusal', text: explanation } as const]),
      readStop(members),
    ];
  }

  #readUsage(report: unknown): AnswerEvent[] {
    const usage = this.#usageMeter.read(report);
    return usage ? [{ type: 'usage', usage }] : [];
  }

  #readError(event: unknown): AnswerEvent[] {
    this.#isOver = true;
    const errorFields = isRecord(event) && isRecord(event.error) ? event.error : {};
    const { error, isRetryable } = faultInStream({ message: errorFields.message, type: errorFields.type });
    return [{ type: 'failure', error, isRetryable }];
  }

  #fail(message: string): AnswerEvent[] {
    this.#isOver = true;
    const error = new WireError(502, 'upstream_error', message, { code: 'upstream_failed' });
    return [{ type: 'failure', error, isRetryable: true }];
  }
}

const textEvent = (type: 'text' | 'reasoning', text: unknown): AnswerEvent[] =>
  typeof text === 'string' && text !== '' ? [{ type, text }] : [];

const signatureEvent = (signature: string): AnswerEvent => ({
  type: 'reasoning_signature',
  signature: tagSignature('anthropic', signature),
});

/** Reads a complete message; undefined where the text is not a message. */
export function readMessage(text: string): AnswerEvent[] | undefined {
  let message: unknown;
  try {
    message = parseExact(text);
  } catch {
    return undefined;
  }
  if (!isRecord(message) || message.type !== 'message' || !Array.isArray(message.content)) return undefined;
  const reader = new MessagesReader();
  return [...reader.read({ type: 'message_start', message }), ...reader.read({ type: 'message_stop' })];
}
