import { createHash, randomBytes } from 'node:crypto';
import type { HttpError } from '../../http/error.ts';
import { isJson, isRecord, type Json } from '../../util/json.ts';
import type { AnswerEvent } from '../core/answer.ts';
import type { AnswerAbout, StreamReceipt, StreamWriter } from '../core/wire.ts';
import { errorFrame, frame, receiptFrame } from './frames.ts';
import { inputOf } from './input.ts';
import { writtenSeal } from './seals.ts';
import { stopMembers } from './stop-reasons.ts';
import { countedPrompt, noUsage, usageMember } from './usage.ts';

type Block =
  | { type: 'text'; text: string }
  | { type: 'thinking'; thinking: string; signature: string }
  | { type: 'redacted_thinking'; data: string }
  | { type: 'tool_use'; id: string; name: string; input: unknown; caller?: object };

interface Call {
  readonly block: Extract<Block, { type: 'tool_use' }>;
  text: string;
}

/** Additional members of the resident model's answers: all members in the types of Anthropic's clients. */
const resident = {
  stop: { stop_details: null, container: null },
  message: { diagnostics: null },
  usage: { server_tool_use: null },
  firstUsage: { inference_geo: null, service_tier: 'standard', speed: null },
};

/**
 * Writes an answer on this wire: one block is open at a time, and indices count blocks of all types. The message that
 * the events add up to is kept as the body of a buffered answer.
 */
export class MessagesWriter implements StreamWriter {
  readonly #about: AnswerAbout;
  readonly #resident: typeof resident | undefined;
  readonly #omitsThinking: boolean;
  readonly #content: Block[] = [];
  readonly #calls = new Map<number, Call>();
  /** Calls that began before the open one was complete. */
  readonly #waiting: Call[] = [];
  /** The open block, which is the last one of the content. */
  #open: Block | undefined;
  #openCall: Call | undefined;
  /** Thinking text of the open block, including omitted text. */
  #thought = '';
  #id: string | undefined;
  #usage = noUsage;
  #refusal = '';
  #finish: Extract<AnswerEvent, { type: 'finish' }> = { type: 'finish', reason: 'stop' };
  #begun: Json | undefined;

  constructor(about: AnswerAbout) {
    this.#about = about;
    this.#resident = about.resident && resident;
    const thinking = this.#resident && about.request.body['thinking'];
    this.#omitsThinking = isRecord(thinking) && thinking['display'] === 'omitted';
  }

  write(event: AnswerEvent): string {
    switch (event.type) {
      case 'start':
        this.#id = event.id;
        return '';
      case 'text': {
        if (event.text === '') return '';
        const { block, begun } = this.#turnTo({ type: 'text', text: '' });
        block.text += event.text;
        return begun + this.#delta('text_delta', 'text', event.text);
      }
      case 'reasoning': {
        if (event.text === '') return '';
        const { block, begun } = this.#think();
        this.#thought += event.text;
        if (this.#omitsThinking) return begun;
        block.thinking += event.text;
        return begun + this.#delta('thinking_delta', 'thinking', event.text);
      }
      case 'reasoning_signature': {
        const { block, begun } = this.#think();
        return begun + this.#seal(block, writtenSeal(event.signature)) + this.#close();
      }
      case 'sealed_reasoning':
        return (
          this.#close() +
          this.#begin({ type: 'redacted_thinking', data: writtenSeal(event.data) }) +
          this.#close()
        );
      case 'tool_call':
        return this.#call(event);
      case 'tool_arguments':
        return this.#argue(event.index, event.text);
      case 'refusal':
        // Written next to the stop reason.
        this.#refusal += event.text;
        return '';
      case 'progress':
        this.#usage = countedPrompt(event);
        return '';
      case 'usage':
        this.#usage = event.usage;
        return '';
      case 'finish':
        this.#finish = event;
        return this.#start() + this.#close();
      case 'failure':
        return '';
    }
  }

  end(receipt?: StreamReceipt): string {
    return (
      this.#start() +
      this.#close() +
      frame({ type: 'message_delta', ...this.#ending() }) +
      frame({ type: 'message_stop' }) +
      (receipt ? receiptFrame(receipt) : '')
    );
  }

  fail(error: HttpError): string {
    return errorFrame(error, this.#about.requestId);
  }

  /** The complete message; call after `end`. */
  message() {
    for (const { block, text } of this.#calls.values()) {
      // Truncated arguments of the resident model become an empty input; those of a provider are shown as invalid.
      block.input = inputOf(text, this.#resident ? {} : { invalid_json: text });
    }
    const { delta, usage } = this.#ending();
    const begun = this.#begun as Json & { readonly usage: object };
    return { ...begun, ...delta, usage: { ...begun.usage, ...usage } };
  }

  #ending() {
    const delta = { ...this.#resident?.stop, ...stopMembers(this.#finish, this.#refusal) };
    return { delta, usage: { ...usageMember(this.#usage), ...this.#resident?.usage } };
  }

  /** Written as late as possible, because it contains the first usage report. */
  #start(): string {
    if (this.#begun) return '';
    const { output: _, reasoning, ...prompt } = this.#usage;
    const usage = { ...prompt, output: 0, ...(reasoning === undefined ? {} : { reasoning: 0 }) };
    this.#begun = {
      id: this.#messageId(),
      type: 'message',
      role: 'assistant',
      model: this.#about.model,
      content: this.#content,
      stop_reason: null,
      stop_sequence: null,
      ...this.#resident?.stop,
      ...this.#resident?.message,
      usage: { ...usageMember(usage), ...this.#resident?.usage, ...this.#resident?.firstUsage },
    };
    return frame({ type: 'message_start', message: this.#begun });
  }

  #messageId(): string {
    if (this.#id) return this.#id;
    if (this.#resident) return `msg_${randomBytes(16).toString('hex')}`;
    return this.#about.requestId.replace(/^(req_)?/, 'msg_');
  }

  /** Returns the open block, or begins a new one. @param fresh begun where no block of its type is open */
  #turnTo<Fresh extends Block>(fresh: Fresh): { readonly block: Fresh; readonly begun: string } {
    if (this.#open?.type === fresh.type) return { block: this.#open as Fresh, begun: '' };
    return { block: fresh, begun: this.#close() + this.#begin(fresh) };
  }

  #think() {
    return this.#turnTo({ type: 'thinking' as const, thinking: '', signature: '' });
  }

  #seal(block: Extract<Block, { type: 'thinking' }>, signature: string): string {
    block.signature = signature;
    return this.#delta('signature_delta', 'signature', signature);
  }

  #call({ index, id, name }: Extract<AnswerEvent, { type: 'tool_call' }>): string {
    const block = this.#resident
      ? // Clients recognize these ids by their prefix.
        { id: id.replace(/^(call_)?/, 'toolu_'), name, input: {}, caller: { type: 'direct' } }
      : { id, name, input: {} };
    const call: Call = { block: { type: 'tool_use', ...block }, text: '' };
    this.#calls.set(index, call);
    // Calls normally arrive one after the other, but a provider may interleave them. A call without arguments so far
    // may have none.
    if (!this.#openCall || isJson(this.#openCall.text)) return this.#close() + this.#beginCall(call);
    this.#waiting.push(call);
    return '';
  }

  #beginCall(call: Call): string {
    const begun = this.#begin(call.block);
    this.#openCall = call;
    return call.text === '' ? begun : begun + this.#delta('input_json_delta', 'partial_json', call.text);
  }

  #argue(index: number, text: string): string {
    const call = this.#calls.get(index);
    if (!call && this.#resident) throw new Error('tool arguments arrived without a preceding call');
    if (!call || text === '') return '';
    call.text += text;
    return call === this.#openCall ? this.#delta('input_json_delta', 'partial_json', text) : '';
  }

  #begin(block: Block): string {
    const started = this.#start();
    this.#content.push(block);
    this.#open = block;
    return (
      started + frame({ type: 'content_block_start', index: this.#content.length - 1, content_block: block })
    );
  }

  #delta(type: string, member: string, value: string): string {
    const delta = `{"type":"${type}","${member}":${JSON.stringify(value)}}`;
    return `event: content_block_delta\ndata: {"type":"content_block_delta","index":${this.#content.length - 1},"delta":${delta}}\n\n`;
  }

  /** Closes the open block and writes the calls that waited for it. */
  #close(): string {
    const open = this.#open;
    if (!open) return '';
    let text = '';
    if (open.type === 'thinking' && open.signature === '' && this.#resident) {
      // Clients require a signature; it is not checked.
      text += this.#seal(open, createHash('sha256').update(this.#thought).digest('base64'));
    }
    this.#thought = '';
    this.#open = undefined;
    this.#openCall = undefined;
    text += frame({ type: 'content_block_stop', index: this.#content.length - 1 });
    for (const call of this.#waiting.splice(0)) text += this.#beginCall(call) + this.#close();
    return text;
  }
}
