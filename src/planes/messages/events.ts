import type { Usage } from '../../engine/index.ts';
import type { ChatEnd, ChatEvent } from '../turn/chat.ts';
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

  *take(event: ChatEvent): Events {
    if (event.type === 'prompt') {
      this.#cached = event.cached;
      return;
    }
    if (!this.#begun) {
      this.#begun = true;
      const cached = event.type === 'end' ? event.usage.cached_tokens : this.#cached;
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
      case 'content': {
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
      case 'end':
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
    return toUsage({ prompt_tokens: this.#facts.promptTokens, completion_tokens: 0, cached_tokens }, 0);
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

  #end(end: ChatEnd): MessageEvent {
    const stop_reason = this.#stopReason(end);
    const stop_sequence = stop_reason === 'stop_sequence' ? (end.stopText ?? null) : null;
    const delta = { stop_reason, stop_sequence, stop_details: null, container: null };
    return { type: 'message_delta', delta, usage: toUsage(end.usage, end.reasoningTokens) };
  }

  #stopReason({ finishReason, stopText }: ChatEnd): StopReason {
    if (finishReason === 'tool_calls') return 'tool_use';
    if (finishReason === 'length') {
      return this.#facts.boundByContext ? 'model_context_window_exceeded' : 'max_tokens';
    }
    return stopText === undefined ? 'end_turn' : 'stop_sequence';
  }
}

function toUsage(usage: Usage, thinkingTokens: number): CumulativeUsage {
  return {
    input_tokens: usage.prompt_tokens - usage.cached_tokens,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: usage.cached_tokens,
    output_tokens: usage.completion_tokens,
    output_tokens_details: { thinking_tokens: thinkingTokens },
    server_tool_use: null,
  };
}
