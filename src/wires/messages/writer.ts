import { createHash, randomBytes } from 'node:crypto';
import type { HttpError } from '../../http/error.ts';
import { isJson, isRecord, type Json } from '../../util/json.ts';
import type { AnswerEvent } from '../core/answer.ts';
import type { AnswerMetadata, StreamReceipt, StreamWriter } from '../core/wire.ts';
import { errorFrame, sseFrame, receiptFrame } from './frames.ts';
import { parseToolInput } from './input.ts';
import { writeSignature } from './reasoning-signatures.ts';
import { writeStopMembers } from './stop-reasons.ts';
import { promptUsage, noUsage, writeUsage } from './usage.ts';

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
const residentMembers = {
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
  readonly #metadata: AnswerMetadata;
  readonly #residentMembers: typeof residentMembers | undefined;
  readonly #omitsThinking: boolean;
  readonly #content: Block[] = [];
  readonly #calls = new Map<number, Call>();
  /** Calls that began before the open one was complete. */
  readonly #waitingCalls: Call[] = [];
  /** The open block, which is the last one of the content. */
  #openBlock: Block | undefined;
  #openCall: Call | undefined;
  /** Thinking text of the open block, including omitted text. */
  #thinkingText = '';
  #id: string | undefined;
  #usage = noUsage;
  #refusal = '';
  #finish: Extract<AnswerEvent, { type: 'finish' }> = { type: 'finish', reason: 'stop' };
  #startMessage: Json | undefined;

  constructor(metadata: AnswerMetadata) {
    this.#metadata = metadata;
    this.#residentMembers = metadata.resident && residentMembers;
    const thinking = this.#residentMembers && metadata.request.body['thinking'];
    this.#omitsThinking = isRecord(thinking) && thinking['display'] === 'omitted';
  }

  write(event: AnswerEvent): string {
    switch (event.type) {
      case 'start':
        this.#id = event.id;
        return '';
      case 'text': {
        if (event.text === '') return '';
        const { block, begun: startFrames } = this.#ensureBlock({ type: 'text', text: '' });
        block.text += event.text;
        return startFrames + this.#delta('text_delta', 'text', event.text);
      }
      case 'reasoning': {
        if (event.text === '') return '';
        const { block, begun: startFrames } = this.#ensureThinking();
        this.#thinkingText += event.text;
        if (this.#omitsThinking) return startFrames;
        block.thinking += event.text;
        return startFrames + this.#delta('thinking_delta', 'thinking', event.text);
      }
      case 'reasoning_signature': {
        const { block, begun: startFrames } = this.#ensureThinking();
        return startFrames + this.#sign(block, writeSignature(event.signature)) + this.#close();
      }
      case 'encrypted_reasoning':
        return (
          this.#close() +
          this.#begin({ type: 'redacted_thinking', data: writeSignature(event.data) }) +
          this.#close()
        );
      case 'tool_call':
        return this.#addCall(event);
      case 'tool_arguments':
        return this.#addArguments(event.index, event.text);
      case 'refusal':
        // Written next to the stop reason.
        this.#refusal += event.text;
        return '';
      case 'progress':
        this.#usage = promptUsage(event);
        return '';
      case 'usage':
        this.#usage = event.usage;
        return '';
      case 'finish':
        this.#finish = event;
        return this.#start() + this.#close();
      case 'failure':
      case 'hosted_call':
      case 'hosted_item':
        return '';
    }
  }

  end(receipt?: StreamReceipt): string {
    return (
      this.#start() +
      this.#close() +
      sseFrame({ type: 'message_delta', ...this.#finalMembers() }) +
      sseFrame({ type: 'message_stop' }) +
      (receipt ? receiptFrame(receipt) : '')
    );
  }

  fail(error: HttpError): string {
    return errorFrame(error, this.#metadata.requestId);
  }

  /** The complete message; call after `end`. */
  message() {
    for (const { block, text } of this.#calls.values()) {
      // Truncated arguments of the resident model become an empty input; those of a provider are shown as invalid.
      block.input = parseToolInput(text, this.#residentMembers ? {} : { invalid_json: text });
    }
    const { delta, usage } = this.#finalMembers();
    const startMessage = this.#startMessage as Json & { readonly usage: object };
    return { ...startMessage, ...delta, usage: { ...startMessage.usage, ...usage } };
  }

  #finalMembers() {
    const delta = { ...this.#residentMembers?.stop, ...writeStopMembers(this.#finish, this.#refusal) };
    return { delta, usage: { ...writeUsage(this.#usage), ...this.#residentMembers?.usage } };
  }

  /** Written as late as possible, because it contains the first usage report. */
  #start(): string {
    if (this.#startMessage) return '';
    const { output: _, reasoning, ...prompt } = this.#usage;
    const usage = { ...prompt, output: 0, ...(reasoning === undefined ? {} : { reasoning: 0 }) };
    this.#startMessage = {
      id: this.#messageId(),
      type: 'message',
      role: 'assistant',
      model: this.#metadata.model,
      content: this.#content,
      stop_reason: null,
      stop_sequence: null,
      ...this.#residentMembers?.stop,
      ...this.#residentMembers?.message,
      usage: { ...writeUsage(usage), ...this.#residentMembers?.usage, ...this.#residentMembers?.firstUsage },
    };
    return sseFrame({ type: 'message_start', message: this.#startMessage });
  }

  #messageId(): string {
    if (this.#id) return this.#id;
    if (this.#residentMembers) return `msg_${randomBytes(16).toString('hex')}`;
    return this.#metadata.requestId.replace(/^(req_)?/, 'msg_');
  }

  /** Returns the open block, or begins a new one. @param fresh begun where no block of its type is open */
  #ensureBlock<Fresh extends Block>(fresh: Fresh): { readonly block: Fresh; readonly begun: string } {
    if (this.#openBlock?.type === fresh.type) return { block: this.#openBlock as Fresh, begun: '' };
    return { block: fresh, begun: this.#close() + this.#begin(fresh) };
  }

  #ensureThinking() {
    return this.#ensureBlock({ type: 'thinking' as const, thinking: '', signature: '' });
  }

  #sign(block: Extract<Block, { type: 'thinking' }>, signature: string): string {
    block.signature = signature;
    return this.#delta('signature_delta', 'signature', signature);
  }

  #addCall({ index, id, name }: Extract<AnswerEvent, { type: 'tool_call' }>): string {
    const block = this.#residentMembers
      ? // Clients recognize these ids by their prefix.
        { id: id.replace(/^(call_)?/, 'toolu_'), name, input: {}, caller: { type: 'direct' } }
      : { id, name, input: {} };
    const call: Call = { block: { type: 'tool_use', ...block }, text: '' };
    this.#calls.set(index, call);
    // Calls normally arrive one after the other, but a provider may interleave them. A call without arguments so far
    // may have none.
    if (!this.#openCall || isJson(this.#openCall.text)) return this.#close() + this.#beginCall(call);
    this.#waitingCalls.push(call);
    return '';
  }

  #beginCall(call: Call): string {
    const startFrame = this.#begin(call.block);
    this.#openCall = call;
    return call.text === ''
      ? startFrame
      : startFrame + this.#delta('input_json_delta', 'partial_json', call.text);
  }

  #addArguments(index: number, text: string): string {
    const call = this.#calls.get(index);
    if (!call && this.#residentMembers) throw new Error('tool arguments arrived without a preceding call');
    if (!call || text === '') return '';
    call.text += text;
    return call === this.#openCall ? this.#delta('input_json_delta', 'partial_json', text) : '';
  }

  #begin(block: Block): string {
    const startFrame = this.#start();
    this.#content.push(block);
    this.#openBlock = block;
    return (
      startFrame +
      sseFrame({ type: 'content_block_start', index: this.#content.length - 1, content_block: block })
    );
  }

  #delta(type: string, member: string, value: string): string {
    const delta = `{"type":"${type}","${member}":${JSON.stringify(value)}}`;
    return `event: content_block_delta\ndata: {"type":"content_block_delta","index":${this.#content.length - 1},"delta":${delta}}\n\n`;
  }

  /** Closes the open block and writes the calls that waited for it. */
  #close(): string {
    const open = this.#openBlock;
    if (!open) return '';
    let text = '';
    if (open.type === 'thinking' && open.signature === '' && this.#residentMembers) {
      // Clients require a signature; it is not checked.
      text += this.#sign(open, createHash('sha256').update(this.#thinkingText).digest('base64'));
    }
    this.#thinkingText = '';
    this.#openBlock = undefined;
    this.#openCall = undefined;
    text += sseFrame({ type: 'content_block_stop', index: this.#content.length - 1 });
    for (const call of this.#waitingCalls.splice(0)) text += this.#beginCall(call) + this.#close();
    return text;
  }
}
