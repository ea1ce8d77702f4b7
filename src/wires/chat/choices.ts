import { isRecord, type Json } from '../../util/json.ts';
import type { AnswerEvent, FinishReason, TokenLogprob } from '../core/answer.ts';
import { faultInStream } from '../core/provider-faults.ts';
import { ToolCallReader } from './calls.ts';

export const finishReasons: Readonly<Record<string, FinishReason>> = {
  stop: 'stop',
  eos: 'stop',
  end_turn: 'stop',
  stop_sequence: 'stop',
  length: 'length',
  max_tokens: 'length',
  // Mistral: the context is full.
  model_length: 'length',
  tool_calls: 'tool_calls',
  function_call: 'tool_calls',
  content_filter: 'content_filter',
};
/** Finish reasons of an answer that the provider aborted (DeepSeek, Mistral). */
const abortReasons = new Set(['insufficient_system_resource', 'error']);

/** Reads one answer, from a complete `message` or from its `delta`s. */
export class ChoiceReader {
  readonly calls = new ToolCallReader();
  /** Whether reasoning text arrived since the last signature. */
  #hasUnsignedReasoning = false;
  isFinished = false;

  push(choice: Json): AnswerEvent[] {
    const delta = choice['delta'] ?? choice['message'];
    const events: AnswerEvent[] = [];
    if (isRecord(delta)) this.#readDelta(delta, choice, events);
    const reason = choice['finish_reason'];
    if (typeof reason === 'string' && reason !== '' && !this.isFinished) events.push(this.finish(reason));
    return events;
  }

  #readDelta(delta: Json, { logprobs, message }: Json, events: AnswerEvent[]): void {
    const details = Array.isArray(delta['reasoning_details'])
      ? (delta['reasoning_details'] as unknown[])
      : [];
    // In a complete message the details assign signatures to reasoning texts; in a stream the text arrived earlier.
    const isInDetails =
      delta === message && details.some((detail) => isRecord(detail) && detail['type'] === 'reasoning.text');
    // Providers that send both members send the same text.
    if (!isInDetails)
      this.#addReasoning(textOf(delta['reasoning_content']) || textOf(delta['reasoning']), events);
    if (details.length > 0) this.#readDetails(details, isInDetails, events);
    const { content } = delta;
    const parts = Array.isArray(content) ? splitContentParts(content) : undefined;
    if (parts) this.#addReasoning(parts.reasoning, events);
    const text = parts ? parts.text : textOf(content);
    const tokenLogprobs = isRecord(logprobs) ? logprobs['content'] : undefined;
    if (Array.isArray(tokenLogprobs) && tokenLogprobs.length > 0)
      events.push({ type: 'text', text, logprobs: tokenLogprobs as TokenLogprob[] });
    else if (text !== '') events.push({ type: 'text', text });
    const refusal = textOf(delta['refusal']);
    if (refusal !== '') events.push({ type: 'refusal', text: refusal });
    if (delta['tool_calls']) for (const event of this.calls.push(delta['tool_calls'])) events.push(event);
  }

  #addReasoning(text: string, events: AnswerEvent[]): void {
    if (text === '') return;
    this.#hasUnsignedReasoning = true;
    events.push({ type: 'reasoning', text });
  }

  /** @param isInDetails whether the reasoning text is taken from the details and not from an earlier member */
  #readDetails(details: readonly unknown[], isInDetails: boolean, events: AnswerEvent[]): void {
    for (const detail of details) {
      if (!isRecord(detail)) continue;
      const { type, text, signature, data, id } = detail;
      if (type === 'reasoning.text') {
        const isSigned = textOf(signature) !== '';
        if (isInDetails || (isSigned && !this.#hasUnsignedReasoning))
          this.#addReasoning(textOf(text), events);
        if (!isSigned) continue;
        this.#hasUnsignedReasoning = false;
        events.push({ type: 'reasoning_signature', signature: textOf(signature) });
      } else if (type === 'reasoning.encrypted' && textOf(data) !== '')
        events.push({
          type: 'encrypted_reasoning',
          data: textOf(data),
          ...(textOf(id) === '' ? {} : { id: textOf(id) }),
        });
    }
  }

  finish(rawReason: string): AnswerEvent {
    this.isFinished = true;
    if (abortReasons.has(rawReason)) {
      const { error, isRetryable } = faultInStream({
        message: `The provider aborted the answer (${rawReason}).`,
      });
      return { type: 'failure', error, isRetryable };
    }
    const reason = finishReasons[rawReason] ?? 'stop';
    // Some providers report `stop` although tools were called.
    const isCall = reason === 'stop' && this.calls.count > 0;
    return {
      type: 'finish',
      reason: isCall ? 'tool_calls' : reason,
      ...(rawReason in finishReasons ? {} : { detail: rawReason.slice(0, 80) }),
    };
  }
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');

/** Mistral's reasoning models write content as parts, including reasoning parts. */
export function splitContentParts(parts: readonly unknown[]): {
  readonly text: string;
  readonly reasoning: string;
} {
  let text = '';
  let reasoning = '';
  for (const part of parts) {
    if (!isRecord(part)) continue;
    const { thinking } = part;
    if (thinking === undefined) text += textOf(part['text']);
    else if (Array.isArray(thinking)) reasoning += splitContentParts(thinking).text;
    else reasoning += textOf(thinking);
  }
  return { text, reasoning };
}
