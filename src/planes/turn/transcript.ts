import type { ChatInput } from '../../chat/index.ts';
import type { Timings, Tokenizer } from '../../engine/index.ts';
import type { TraceSpan } from '../../tracing/index.ts';

/** Answer events of any wire, as far as the transcript records them. */
export type TranscriptEvent = { readonly choice?: number } & (
  | { readonly type: 'text' | 'reasoning'; readonly text: string }
  | { readonly type: 'tool_call'; readonly index: number; readonly name: string }
  | { readonly type: 'tool_arguments'; readonly index: number; readonly text: string }
  | { readonly type: 'prompt' }
  | AnswerEnd
);

export interface AnswerEnd {
  readonly type: 'end';
  readonly finishReason: string;
  readonly usage: {
    readonly prompt_tokens: number;
    readonly completion_tokens: number;
    /** Undefined where the answer ended before the engine reported it. */
    readonly cached_tokens: number | undefined;
  };
  readonly timings: Timings | undefined;
}

/** Records the messages of a request, where a sink keeps transcripts. */
export function recordConversation(span: TraceSpan, { messages }: ChatInput): void {
  if (!span.transcript) return;
  for (const turn of messages) {
    if (turn.role !== 'assistant') {
      span.addTranscriptEntry(turn.role, () => turn.content, turn.name);
      continue;
    }
    const { reasoning, content, toolCalls = [] } = turn;
    if (reasoning) span.addTranscriptEntry('reasoning', () => reasoning);
    if (content !== '') span.addTranscriptEntry('assistant', () => content);
    for (const call of toolCalls)
      span.addTranscriptEntry('tool_call', () => argumentsOf(call.arguments), call.name);
  }
}

const argumentsOf = (value: unknown): string =>
  typeof value === 'string' ? value : JSON.stringify(value ?? {});

/** Records texts that are not part of a conversation. */
export function recordTexts(
  span: TraceSpan,
  tokenizer: Pick<Tokenizer, 'decode'>,
  texts: readonly (readonly number[])[],
): void {
  if (!span.transcript) return;
  for (const ids of texts) span.addTranscriptEntry('user', () => tokenizer.decode(ids, { special: true }));
}

interface Answer {
  readonly text: string[];
  readonly reasoning: string[];
  readonly calls: { readonly name: string; readonly pieces: string[] }[];
}

/**
 * Collects the contents of answers. Each answer is recorded when it ends, including answers that were cut off.
 */
export class AnswerTranscripts {
  readonly #span: TraceSpan;
  readonly #answers = new Map<number, Answer>();

  constructor(span: TraceSpan) {
    this.#span = span;
  }

  add(event: TranscriptEvent): void {
    const { choice = 0 } = event;
    const answer = this.#answers.get(choice) ?? { text: [], reasoning: [], calls: [] };
    this.#answers.set(choice, answer);
    switch (event.type) {
      case 'text':
        answer.text.push(event.text);
        break;
      case 'reasoning':
        answer.reasoning.push(event.text);
        break;
      case 'tool_call':
        answer.calls[event.index] = { name: event.name, pieces: [] };
        break;
      case 'tool_arguments':
        answer.calls[event.index]?.pieces.push(event.text);
        break;
      case 'prompt':
        break;
      case 'end':
        this.#record(answer);
        this.#answers.delete(choice);
    }
  }

  /** Records the answers that did not complete. */
  end(): void {
    for (const answer of this.#answers.values()) this.#record(answer);
    this.#answers.clear();
  }

  #record({ text, reasoning, calls }: Answer): void {
    const parts = [
      { role: 'reasoning', text: reasoning.join('') },
      { role: 'assistant', text: text.join('') },
    ] as const;
    for (const { role, text: fullText } of parts)
      if (fullText !== '') this.#span.addTranscriptEntry(role, () => fullText);
    for (const { name, pieces } of calls)
      this.#span.addTranscriptEntry('tool_call', () => pieces.join(''), name);
  }
}
