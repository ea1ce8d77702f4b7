import type { ChatDelta, PreparedChat } from '../../chat/index.ts';
import type { GenerationEvent, TokenLogprob, Tokenizer } from '../../engine/index.ts';
import { isJson } from './is-json.ts';
import { TokenTrail } from './trail.ts';

type TextEvent = Extract<GenerationEvent, { type: 'text' }>;

/** Content and reasoning carry the log probabilities of the tokens they were made of, where they were asked for. */
export type ParsedDelta = ChatDelta & { readonly logprobs?: readonly TokenLogprob[] };

/** What one answer was parsed into so far. */
export class Progress {
  readonly #parser;
  readonly #trail: TokenTrail;
  /** The arguments of each call. */
  readonly #calls: string[][] = [];
  /** Characters of tokens that came, and whose text is still held back: a stop text might have begun with it. */
  #ahead = 0;
  reasoningTokens = 0;

  constructor(prepared: PreparedChat, tokenizer: Tokenizer) {
    this.#parser = prepared.parser();
    this.#trail = new TokenTrail(tokenizer, prepared.visible);
  }

  /** Parsed token by token, so that what the parser hands out is at the end of the trail. */
  text({ text, ids, logprobs }: TextEvent): ParsedDelta[] {
    const deltas: ParsedDelta[] = [];
    let from = 0;
    for (const [index, id] of ids.entries()) {
      this.#ahead += this.#trail.push(id, logprobs?.[index]);
      if (index === ids.length - 1) break;
      const to = Math.min(from + this.#ahead, text.length);
      if (to > from) deltas.push(...this.#feed(text.slice(from, to)));
      from = to;
    }
    deltas.push(...this.#feed(text.slice(from)));
    return joined(deltas);
  }

  #feed(text: string): ParsedDelta[] {
    this.#ahead = Math.max(0, this.#ahead - text.length);
    return this.#parsed(this.#parser.push(text));
  }

  end(): ParsedDelta[] {
    return this.#parsed(this.#parser.end());
  }

  /** Calls were made, and each of them is whole: none was cut off by a stop text or given up by the model. */
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

/** Neighbours of a kind as one: what came together is told together. */
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
