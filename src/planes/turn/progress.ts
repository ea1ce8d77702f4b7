import type { ChatDelta, PreparedChat } from '../../chat/index.ts';
import type { GenerationEvent, TokenLogprob, Tokenizer } from '../../engine/index.ts';
import { isJson } from '../../util/json.ts';
import { TokenTrail } from './trail.ts';

type TextEvent = Extract<GenerationEvent, { type: 'text' }>;

/** Content and reasoning deltas carry the log probabilities of their tokens, where requested. */
export type ParsedDelta = ChatDelta & { readonly logprobs?: readonly TokenLogprob[] };

/** Parses one answer incrementally and aligns its tokens with the parsed deltas. */
export class Progress {
  readonly #parser;
  readonly #trail: TokenTrail;
  /** Argument pieces of each call. */
  readonly #calls: string[][] = [];
  /** Text lengths of the tokens whose text is still held back because it may be the beginning of a stop text. */
  readonly #held: number[] = [];
  reasoningTokens = 0;

  constructor(prepared: PreparedChat, tokenizer: Tokenizer) {
    this.#parser = prepared.parser();
    this.#trail = new TokenTrail(tokenizer, prepared.visible);
  }

  /**
   * Parses the text token by token, including text that was held back, so that each delta ends at the aligner's
   * position.
   */
  text({ text, ids, logprobs }: TextEvent): ParsedDelta[] {
    for (const [index, id] of ids.entries()) {
      const length = this.#trail.push(id, logprobs?.[index]);
      if (length > 0) this.#held.push(length);
    }
    const deltas: ParsedDelta[] = [];
    for (let from = 0; from < text.length; ) {
      // Text without a remaining token is parsed as it is.
      const length = this.#held.shift() ?? text.length - from;
      const to = Math.min(from + length, text.length);
      if (from + length > to) this.#held.unshift(from + length - to);
      deltas.push(...this.#parsed(this.#parser.push(text.slice(from, to))));
      from = to;
    }
    return joined(deltas);
  }

  /** Characters that the parser has not received yet. */
  get #ahead(): number {
    return this.#held.reduce((sum, length) => sum + length, 0);
  }

  end(): ParsedDelta[] {
    return this.#parsed(this.#parser.end());
  }

  /**
   * Whether there are calls and each has complete arguments: none was cut off by a stop text or abandoned by the model.
   */
  get called(): boolean {
    return this.#calls.length > 0 && this.#calls.every((pieces) => isJson(pieces.join('')));
  }

  #parsed(deltas: readonly ChatDelta[]): ParsedDelta[] {
    return deltas.map((delta) => this.#withTokens(delta));
  }

  #withTokens(delta: ChatDelta): ParsedDelta {
    if (delta.type === 'tool_call') {
      this.#calls[delta.index] = [];
      this.#trail.pass(delta.name, this.#ahead);
      return delta;
    }
    if (delta.type === 'tool_arguments') {
      this.#calls[delta.index]?.push(delta.text);
      this.#trail.pass(delta.text, this.#ahead);
      return delta;
    }
    const { tokens, logprobs } = this.#trail.take(delta.text, this.#ahead);
    if (delta.type === 'reasoning') this.reasoningTokens += tokens;
    return logprobs.length > 0 ? { ...delta, logprobs } : delta;
  }
}

/** Merges adjacent deltas of the same kind into one. */
function joined(deltas: readonly ParsedDelta[]): ParsedDelta[] {
  const all: ParsedDelta[] = [];
  for (const group of groups(deltas)) {
    const [first] = group;
    if (first === undefined || first.type === 'tool_call') {
      all.push(...group);
      continue;
    }
    const text = group.map((delta) => ('text' in delta ? delta.text : '')).join('');
    const logprobs = group.flatMap((delta) => delta.logprobs ?? []);
    all.push({ ...first, text, ...(logprobs.length > 0 ? { logprobs } : {}) });
  }
  return all;
}

function groups(deltas: readonly ParsedDelta[]): ParsedDelta[][] {
  const found: ParsedDelta[][] = [];
  for (const delta of deltas) {
    const last = found.at(-1);
    if (last?.[0] && isOneWith(last[0], delta)) last.push(delta);
    else found.push([delta]);
  }
  return found;
}

const isOneWith = (before: ParsedDelta, delta: ParsedDelta): boolean =>
  before.type === 'tool_arguments' && delta.type === 'tool_arguments'
    ? before.index === delta.index
    : before.type === delta.type;
