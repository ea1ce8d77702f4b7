import type { HttpError } from '../../http/error.ts';
import type { AnswerEvent } from '../core/answer.ts';
import type { AnswerAbout, StreamReceipt, StreamWriter } from '../core/wire.ts';
import { messageId, stopMembers } from './body.ts';
import { errorFrame, frame, receiptFrame } from './frames.ts';
import { writtenSeal } from './seals.ts';
import { noUsage, usageMember } from './usage.ts';

type Block = { readonly type: string; readonly [member: string]: unknown };
type Call = Extract<AnswerEvent, { type: 'tool_call' }>;
/** Says any answer on this wire: one block is open at a time, indices count blocks of all kinds. */
export class MessagesWriter implements StreamWriter {
  readonly #about: AnswerAbout;
  #id: string | undefined;
  #isStarted = false;
  /** Of the open block, or of the next. */
  #index = 0;
  #open: 'text' | 'thinking' | 'tool_use' | undefined;
  /** The call whose block is open, and what it holds. */
  #call: { readonly index: number; text: string } | undefined;
  /** Calls that began before the open one was whole. */
  readonly #waiting: { readonly call: Call; text: string }[] = [];
  #usage = noUsage;
  #refusal = '';
  #finish: Extract<AnswerEvent, { type: 'finish' }> = { type: 'finish', reason: 'stop' };

  constructor(about: AnswerAbout) {
    this.#about = about;
  }

  write(event: AnswerEvent): string {
    switch (event.type) {
      case 'start':
        this.#id = event.id;
        return '';
      case 'text':
        return event.text === ''
          ? ''
          : this.#turnTo('text', { type: 'text', text: '' }) + this.#delta('text_delta', 'text', event.text);
      case 'reasoning':
        return event.text === '' ? '' : this.#think() + this.#delta('thinking_delta', 'thinking', event.text);
      case 'reasoning_signature':
        return (
          this.#think() +
          this.#delta('signature_delta', 'signature', writtenSeal(event.signature)) +
          this.#close()
        );
      case 'sealed_reasoning':
        return (
          this.#close() +
          this.#begin({ type: 'redacted_thinking', data: writtenSeal(event.data) }) +
          this.#stopBlock()
        );
      case 'tool_call':
        return this.#callTool(event);
      case 'tool_arguments':
        return this.#argue(event.index, event.text);
      case 'refusal':
        // Stands beside the reason to stop.
        this.#refusal += event.text;
        return '';
      case 'usage':
        this.#usage = event.usage;
        return '';
      case 'finish':
        this.#finish = event;
        return this.#start() + this.#close();
      case 'progress':
      case 'failure':
        return '';
    }
  }

  end(receipt?: StreamReceipt): string {
    const delta = { ...stopMembers(this.#finish, this.#refusal) };
    return (
      this.#start() +
      this.#close() +
      frame({ type: 'message_delta', delta, usage: usageMember(this.#usage) }) +
      frame({ type: 'message_stop' }) +
      (receipt ? receiptFrame(receipt) : '')
    );
  }

  fail(error: HttpError): string {
    return errorFrame(error, this.#about.requestId);
  }

  /** As late as can be: the first report of usage belongs into it. */
  #start(): string {
    if (this.#isStarted) return '';
    this.#isStarted = true;
    const message = {
      id: messageId(this.#id, this.#about),
      type: 'message',
      role: 'assistant',
      model: this.#about.model,
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: usageMember(this.#usage),
    };
    return frame({ type: 'message_start', message });
  }

  #turnTo(kind: 'text' | 'thinking', block: Block): string {
    if (this.#open === kind) return '';
    const text = this.#close() + this.#begin(block);
    this.#open = kind;
    return text;
  }

  #think(): string {
    return this.#turnTo('thinking', { type: 'thinking', thinking: '', signature: '' });
  }

  #callTool(call: Call): string {
    if (this.#call && !isWhole(this.#call.text)) {
      this.#waiting.push({ call, text: '' });
      return '';
    }
    const text = this.#close() + this.#begin({ type: 'tool_use', id: call.id, name: call.name, input: {} });
    this.#open = 'tool_use';
    this.#call = { index: call.index, text: '' };
    return text;
  }

  #argue(index: number, text: string): string {
    if (text === '') return '';
    if (this.#call?.index === index) {
      this.#call.text += text;
      return this.#delta('input_json_delta', 'partial_json', text);
    }
    const waiting = this.#waiting.find(({ call }) => call.index === index);
    if (waiting) waiting.text += text;
    return '';
  }

  #begin(content_block: Block): string {
    return this.#start() + frame({ type: 'content_block_start', index: this.#index, content_block });
  }

  #delta(type: string, member: string, value: string): string {
    const delta = `{"type":"${type}","${member}":${JSON.stringify(value)}}`;
    return `event: content_block_delta\ndata: {"type":"content_block_delta","index":${this.#index},"delta":${delta}}\n\n`;
  }

  #stopBlock(): string {
    return frame({ type: 'content_block_stop', index: this.#index++ });
  }

  /** The open block, and the calls that waited for it. */
  #close(): string {
    if (this.#open === undefined) return '';
    this.#open = undefined;
    this.#call = undefined;
    let text = this.#stopBlock();
    for (const { call, text: held } of this.#waiting.splice(0)) {
      text += this.#callTool(call) + this.#argue(call.index, held) + this.#close();
    }
    return text;
  }
}

/** Calls come one after the other, but nothing keeps a provider from mixing them. */
function isWhole(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    // No arguments yet may mean none at all.
    return false;
  }
}
