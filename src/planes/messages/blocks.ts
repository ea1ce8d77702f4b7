import { createHash } from 'node:crypto';
import type { Block, BlockDelta } from './schema.ts';

/** A block of the answer while it is being made. */
export interface OpenBlock {
  /** As it begins. */
  readonly start: Block;
  /** What has to be said before it ends. */
  last(): readonly BlockDelta[];
  whole(): Block;
}

export class OpenText implements OpenBlock {
  readonly start = { type: 'text', text: '' } as const;
  #text = '';

  delta(text: string): BlockDelta {
    this.#text += text;
    return { type: 'text_delta', text };
  }

  last = () => [];
  whole = (): Block => ({ ...this.start, text: this.#text });
}

/** The signature names the thought: clients want one, and nothing checks it. */
export class OpenThinking implements OpenBlock {
  readonly start = { type: 'thinking', thinking: '', signature: '' } as const;
  readonly #hash = createHash('sha256');
  readonly #omitted: boolean;
  #thinking = '';
  #signature = '';

  /** @param omitted nothing is shown of it */
  constructor(omitted: boolean) {
    this.#omitted = omitted;
  }

  *delta(thinking: string): Generator<BlockDelta, void, undefined> {
    this.#hash.update(thinking);
    if (this.#omitted) return;
    this.#thinking += thinking;
    yield { type: 'thinking_delta', thinking };
  }

  last(): BlockDelta[] {
    this.#signature = this.#hash.digest('base64');
    return [{ type: 'signature_delta', signature: this.#signature }];
  }

  whole = (): Block => ({ ...this.start, thinking: this.#thinking, signature: this.#signature });
}

export class OpenToolUse implements OpenBlock {
  readonly start;
  #json = '';

  constructor(id: string, name: string) {
    const caller = { type: 'direct' } as const;
    this.start = { type: 'tool_use', id: toToolUseId(id), name, input: {}, caller } as const;
  }

  delta(partial_json: string): BlockDelta {
    this.#json += partial_json;
    return { type: 'input_json_delta', partial_json };
  }

  last = () => [];
  whole = (): Block => ({ ...this.start, input: parsed(this.#json) });
}

/** Clients know these ids by their beginning. */
const toToolUseId = (id: string): string => `toolu_${id.replace(/^call_/, '')}`;

/** What was cut off is no input. */
function parsed(json: string): unknown {
  try {
    return JSON.parse(json) as unknown;
  } catch {
    return {};
  }
}
