import type { ChatDelta, PreparedChat } from '../../chat/index.ts';
import type { GenerationEvent, TokenLogprob, Tokenizer } from '../../engine/index.ts';
import { isJson } from '../../util/json.ts';
import { TokenAligner } from './token-aligner.ts';

type TextEvent = Extract<GenerationEvent, { type: 'text' }>;

/** Content and reasoning deltas carry the log probabilities of their tokens, where requested. */
export type ParsedDelta = ChatDelta & { readonly logprobs?: readonly TokenLogprob[] };

/** Parses one answer incrementally and aligns its tokens with the parsed deltas. */
export class AnswerParser {
  readonly #parser;
  readonly #aligner: TokenAligner;
  /** Argument pieces of each call. */
  readonly #calls: string[][] = [];
  /** Text lengths of the tokens whose text is still held back because it may be the beginning of a stop text. */
  readonly #heldLengths: number[] = [];
  reasoningTokens = 0;

  constructor(prepared: PreparedChat, tokenizer: Tokenizer) {
    this.#parser = prepared.parser();
    this.#aligner = new TokenAligner(tokenizer, prepared.visible);
  }

  /**
   * Parses the text token by token, including text that was held back, so that each delta ends at the aligner's
   * position.
   */
  push({ text, ids, logprobs }: TextEvent): ParsedDelta[] {
    for (const [index, id] of ids.entries()) {
      const length = this.#aligner.push(id, logprobs?.[index]);
      if (length > 0) this.#heldLengths.push(length);
    }
    const deltas: ParsedDelta[] = [];
    for (let from = 0; from < text.length; ) {
      // Text without a remaining token is parsed as it is.
      const length = this.#heldLengths.shift() ?? text.length - from;
      const to = Math.min(from + length, text.length);
      if (from + length > to) this.#heldLengths.unshift(from + length - to);
      deltas.push(...this.#alignDeltas(this.#parser.push(text.slice(from, to))));
      from = to;
    }
    return mergeAdjacent(deltas);
  }

  /** Characters that the parser has not received yet. */
  get #unparsedLength(): number {
    return this.#heldLengths.reduce((sum, length) => sum + length, 0);
  }

  end(): ParsedDelta[] {
    return this.#alignDeltas(this.#parser.end());
  }

  /**
   * Whether there are calls and each has complete arguments: none was cut off by a stop text or abandoned by the model.
   */
  get hasCompleteCalls(): boolean {
    return this.#calls.length > 0 && this.#calls.every((pieces) => isJson(pieces.join('')));
  }

  #alignDeltas(deltas: readonly ChatDelta[]): ParsedDelta[] {
    return deltas.map((delta) => this.#alignDelta(delta));
  }

  #alignDelta(delta: ChatDelta): ParsedDelta {
    if (delta.type === 'tool_call') {
      this.#calls[delta.index] = [];
      this.#aligner.skip(delta.name, this.#unparsedLength);
      return delta;
    }
    if (delta.type === 'tool_arguments') {
      this.#calls[delta.index]?.push(delta.text);
      this.#aligner.skip(delta.text, this.#unparsedLength);
      return delta;
    }
    const { tokens, logprobs } = this.#aligner.align(delta.text, this.#unparsedLength);
    if (delta.type === 'reasoning') this.reasoningTokens += tokens;
    return logprobs.length > 0 ? { ...delta, logprobs } : delta;
  }
}

/** Merges adjacent deltas of the same kind into one. */
function mergeAdjacent(deltas: readonly ParsedDelta[]): ParsedDelta[] {
  const all: ParsedDelta[] = [];
  for (const group of groupAdjacent(deltas)) {
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

function groupAdjacent(deltas: readonly ParsedDelta[]): ParsedDelta[][] {
  const groups: ParsedDelta[][] = [];
  for (const delta of deltas) {
    const last = groups.at(-1);
    if (last?.[0] && canMerge(last[0], delta)) last.push(delta);
    else groups.push([delta]);
  }
  return groups;
}

const canMerge = (before: ParsedDelta, delta: ParsedDelta): boolean =>
  before.type === 'tool_arguments' && delta.type === 'tool_arguments'
    ? before.index === delta.index
    : before.type === delta.type;
