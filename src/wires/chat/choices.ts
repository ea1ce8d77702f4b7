import { isRecord, type Json } from '../../util/json.ts';
import type { AnswerEvent, FinishReason, TokenLogprob } from '../core/answer.ts';
import { faultInStream } from '../core/provider-faults.ts';
import { CallReader } from './calls.ts';

export const reasons: Readonly<Record<string, FinishReason>> = {
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
const givenUp = new Set(['insufficient_system_resource', 'error']);

/** Reads one answer, from a complete `message` or from its `delta`s. */
export class ChoiceReader {
  readonly calls = new CallReader();
  /** Whether reasoning text arrived since the last signature. */
  #thoughts = false;
  finished = false;

  push(choice: Json): AnswerEvent[] {
    const delta = choice['delta'] ?? choice['message'];
    const events: AnswerEvent[] = [];
    if (isRecord(delta)) this.#content(delta, choice, events);
    const reason = choice['finish_reason'];
    if (typeof reason === 'string' && reason !== '' && !this.finished) events.push(this.finish(reason));
    return events;
  }

  #content(delta: Json, { logprobs, message }: Json, events: AnswerEvent[]): void {
    const details = Array.isArray(delta['reasoning_details'])
      ? (delta['reasoning_details'] as unknown[])
      : [];
    // In a complete message the details assign signatures to reasoning texts; in a stream the text arrived earlier.
    const isTold =
      delta === message && details.some((detail) => isRecord(detail) && detail['type'] === 'reasoning.text');
    // Providers that send both members send the same text.
    if (!isTold) this.#think(textOf(delta['reasoning_content']) || textOf(delta['reasoning']), events);
    if (details.length > 0) this.#details(details, isTold, events);
    const { content } = delta;
    const parts = Array.isArray(content) ? partsIn(content) : undefined;
    if (parts) this.#think(parts.thoughts, events);
    const text = parts ? parts.text : textOf(content);
    const shown = isRecord(logprobs) ? logprobs['content'] : undefined;
    if (Array.isArray(shown) && shown.length > 0)
      events.push({ type: 'text', text, logprobs: shown as TokenLogprob[] });
    else if (text !== '') events.push({ type: 'text', text });
    const refusal = textOf(delta['refusal']);
    if (refusal !== '') events.push({ type: 'refusal', text: refusal });
    if (delta['tool_calls']) for (const event of this.calls.push(delta['tool_calls'])) events.push(event);
  }

  #think(text: string, events: AnswerEvent[]): void {
    if (text === '') return;
    this.#thoughts = true;
    events.push({ type: 'reasoning', text });
  }

  /** @param isInDetails whether the reasoning text is taken from the details and not from an earlier member */
  #details(details: readonly unknown[], isTold: boolean, events: AnswerEvent[]): void {
    for (const detail of details) {
      if (!isRecord(detail)) continue;
      const { type, text, signature, data, id } = detail;
      if (type === 'reasoning.text') {
        const isSealed = textOf(signature) !== '';
        if (isTold || (isSealed && !this.#thoughts)) this.#think(textOf(text), events);
        if (!isSealed) continue;
        this.#thoughts = false;
        events.push({ type: 'reasoning_signature', signature: textOf(signature) });
      } else if (type === 'reasoning.encrypted' && textOf(data) !== '')
        events.push({
          type: 'sealed_reasoning',
          data: textOf(data),
          ...(textOf(id) === '' ? {} : { id: textOf(id) }),
        });
    }
  }

  finish(said: string): AnswerEvent {
    this.finished = true;
    if (givenUp.has(said)) {
      const { error, again } = faultInStream({ message: `The provider aborted the answer (${said}).` });
      return { type: 'failure', error, again };
    }
    const reason = reasons[said] ?? 'stop';
    // Some providers report `stop` although tools were called.
    const isCall = reason === 'stop' && this.calls.count > 0;
    return {
      type: 'finish',
      reason: isCall ? 'tool_calls' : reason,
      ...(said in reasons ? {} : { detail: said.slice(0, 80) }),
    };
  }
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');

/** Mistral's reasoning models write content as parts, including reasoning parts. */
export function partsIn(parts: readonly unknown[]): { readonly text: string; readonly thoughts: string } {
  let text = '';
  let thoughts = '';
  for (const part of parts) {
    if (!isRecord(part)) continue;
    const { thinking } = part;
    if (thinking === undefined) text += textOf(part['text']);
    else if (Array.isArray(thinking)) thoughts += partsIn(thinking).text;
    else thoughts += textOf(thinking);
  }
  return { text, thoughts };
}
