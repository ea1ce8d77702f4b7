import type { AnswerEvent } from '../../wires/core/answer.ts';
import type { Usage } from '../../wires/core/types.ts';
import { freshId } from '../turn/ids.ts';
import { type OpenBlock, OpenText, OpenThinking, OpenToolUse } from './blocks.ts';
import type { Block, CumulativeUsage, MessageEvent, MessageObject, StopReason } from './schema.ts';

type Events = Generator<MessageEvent, void, undefined>;

export interface MessageFacts {
  readonly model: string;
  readonly promptTokens: number;
  /** The context ends the answer before the request's own limit does. */
  readonly boundByContext: boolean;
  /** Thinking blocks are empty. */
  readonly omitThinking: boolean;
}

/** Writes one answer as the events of a message, and keeps the message that they add up to. */
export class MessageWriter {
  readonly #facts: MessageFacts;
  readonly #content: Block[] = [];
  readonly #message: MessageObject;
  #open: OpenBlock | undefined;
  #begun = false;
  /** Prompt tokens that came from the prefix cache. */
  #cached = 0;
  #usage: Usage = noUsage;

  constructor(facts: MessageFacts) {
    this.#facts = facts;
    this.#message = {
      id: freshId('msg'),
      type: 'message',
      role: 'assistant',
      model: facts.model,
      content: [],
      stop_reason: null,
      stop_sequence: null,
      stop_details: null,
      container: null,
      diagnostics: null,
      usage: {
        ...this.#begunUsage(0),
        cache_creation: { ephemeral_1h_input_tokens: 0, ephemeral_5m_input_tokens: 0 },
        inference_geo: null,
        service_tier: 'standard',
        speed: null,
      },
    };
  }

  *take(event: AnswerEvent): Events {
    if (event.type === 'progress') this.#cached = event.cached;
    if (event.type === 'usage') this.#usage = event.usage;
    if (event.type === 'progress' || event.type === 'usage') return;
    if (!this.#begun) {
      this.#begun = true;
      const cached = event.type === 'finish' ? this.#usage.cacheRead : this.#cached;
      const usage = { ...this.#message.usage, ...this.#begunUsage(cached) };
      yield { type: 'message_start', message: { ...this.#message, usage } };
    }
    switch (event.type) {
      case 'reasoning': {
        const block =
          this.#open instanceof OpenThinking ? this.#open : new OpenThinking(this.#facts.omitThinking);
        yield* this.#turnTo(block);
        for (const delta of block.delta(event.text)) yield this.#delta(delta);
        return;
      }
      case 'text': {
        const block = this.#open instanceof OpenText ? this.#open : new OpenText();
        yield* this.#turnTo(block);
        yield this.#delta(block.delta(event.text));
        return;
      }
      case 'tool_call':
        yield* this.#turnTo(new OpenToolUse(event.id, event.name));
        return;
      case 'tool_arguments':
        if (!(this.#open instanceof OpenToolUse)) throw new Error('arguments came without their call');
        yield this.#delta(this.#open.delta(event.text));
        return;
      case 'finish':
        yield* this.#close();
        yield this.#end(event);
        yield { type: 'message_stop' };
    }
  }

  /** The whole message, given the last but one of its events. */
  finished({ delta, usage }: Extract<MessageEvent, { type: 'message_delta' }>): MessageObject {
    return {
      ...this.#message,
      ...delta,
      content: this.#content,
      usage: { ...this.#message.usage, ...usage },
    };
  }

  /** Before the answer's first token. */
  #begunUsage(cached_tokens: number): CumulativeUsage {
    return toUsage({
      ...noUsage,
      fresh: this.#facts.promptTokens - cached_tokens,
      cacheRead: cached_tokens,
    });
  }

  #delta(delta: Extract<MessageEvent, { type: 'content_block_delta' }>['delta']): MessageEvent {
    return { type: 'content_block_delta', index: this.#content.length, delta };
  }

  *#turnTo(block: OpenBlock): Events {
    if (this.#open === block) return;
    yield* this.#close();
    this.#open = block;
    yield { type: 'content_block_start', index: this.#content.length, content_block: block.start };
  }

  *#close(): Events {
    if (!this.#open) return;
    for (const delta of this.#open.last()) yield this.#delta(delta);
    yield { type: 'content_block_stop', index: this.#content.length };
    this.#content.push(this.#open.whole());
    this.#open = undefined;
  }

  #end(end: Finish): MessageEvent {
    const stop_reason = this.#stopReason(end);
    const stop_sequence = stop_reason === 'stop_sequence' ? (end.stopText ?? null) : null;
    const delta = { stop_reason, stop_sequence, stop_details: null, container: null };
    return { type: 'message_delta', delta, usage: toUsage(this.#usage) };
  }

  #stopReason({ reason: finishReason, stopText }: Finish): StopReason {
    if (finishReason === 'tool_calls') return 'tool_use';
    if (finishReason === 'length') {
      return this.#facts.boundByContext ? 'model_context_window_exceeded' : 'max_tokens';
    }
    return stopText === undefined ? 'end_turn' : 'stop_sequence';
  }
}

type Finish = Extract<AnswerEvent, { type: 'finish' }>;

const noUsage: Usage = { fresh: 0, cacheWrite: 0, cacheWrite1h: 0, cacheRead: 0, output: 0 };

function toUsage({ fresh, cacheRead, output, reasoning = 0 }: Usage): CumulativeUsage {
  return {
    input_tokens: fresh,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: cacheRead,
    output_tokens: output,
    output_tokens_details: { thinking_tokens: reasoning },
    server_tool_use: null,
  };
}
