import type { Json } from '../../util/json.ts';
import type { AnswerEvent, FinishReason, TokenLogprob } from '../core/answer.ts';
import { logprobsOf, type ResidentForm } from './resident-form.ts';

export type Choice = Readonly<{ message: Json; finish: FinishReason; logprobs: Json | null }>;

/**
 * Combines reasoning texts and their signatures into `reasoning_details`, which callers return with the next request.
 */
export class ReasoningDetails {
  readonly all: Json[] = [];
  #open = '';
  #hasSeals = false;

  /** @returns the details that the event completes */
  add(event: AnswerEvent): readonly Json[] {
    if (event.type === 'reasoning') this.#open += event.text;
    if (event.type !== 'reasoning_signature' && event.type !== 'sealed_reasoning') return [];
    const details = this.#sealed(event);
    this.#open = '';
    this.#hasSeals = true;
    for (const detail of details) this.all.push(detail);
    return details;
  }

  #sealed(event: Extract<AnswerEvent, { type: 'reasoning_signature' | 'sealed_reasoning' }>): Json[] {
    const text = { type: 'reasoning.text', text: this.#open };
    if (event.type === 'reasoning_signature') return [{ ...text, signature: event.signature }];
    // The readable part of encrypted reasoning is returned with it.
    const { data, id } = event;
    const sealed = { type: 'reasoning.encrypted', data, ...(id === undefined ? {} : { id }) };
    return this.#open === '' ? [sealed] : [text, sealed];
  }

  /** Undefined where nothing is signed, because the text alone is sufficient then. */
  get whole(): readonly Json[] | undefined {
    if (!this.#hasSeals) return undefined;
    return this.#open === '' ? this.all : [...this.all, { type: 'reasoning.text', text: this.#open }];
  }
}

export const sealOf = (signature: string | undefined): Json =>
  signature === undefined ? {} : { extra_content: { google: { thought_signature: signature } } };

/** Writes one choice from its events. @param residentOptions options of the resident model's answers */
export function choiceOf(events: readonly AnswerEvent[], form?: ResidentForm): Choice {
  let text: string | null = null;
  let refusal: string | null = null;
  let reasoning = '';
  let finish: FinishReason = 'stop';
  const details = new ReasoningDetails();
  const logprobs: TokenLogprob[] = [];
  const calls: { id: string; name: string; arguments: string; signature: string | undefined }[] = [];
  for (const event of events) {
    details.add(event);
    switch (event.type) {
      case 'text':
        text = (text ?? '') + event.text;
        for (const each of event.logprobs ?? []) logprobs.push(each);
        break;
      case 'refusal':
        refusal = (refusal ?? '') + event.text;
        break;
      case 'reasoning':
        reasoning += event.text;
        break;
      case 'tool_call': {
        const { id, name, signature } = event;
        calls[event.index] = { id, name, arguments: '', signature };
        break;
      }
      case 'tool_arguments': {
        const call = calls[event.index];
        if (call) call.arguments += event.text;
        break;
      }
      case 'finish':
        finish = event.reason;
        break;
      default:
    }
  }
  const { whole } = details;
  const message = {
    role: 'assistant',
    // Null only together with calls or refusals, as OpenAI does.
    content: text ?? (calls.length > 0 || refusal !== null ? null : ''),
    refusal,
    ...(reasoning === '' ? {} : { ...(form ? { reasoning_content: reasoning } : {}), reasoning }),
    ...(whole ? { reasoning_details: whole } : {}),
    ...(calls.length > 0
      ? {
          tool_calls: calls.map(({ id, name, arguments: args, signature }) => ({
            id,
            type: 'function',
            function: { name, arguments: args },
            ...sealOf(signature),
          })),
        }
      : {}),
  };
  const isTold = form ? form.tellsLogprobs : logprobs.length > 0;
  return { message, finish, logprobs: isTold ? logprobsOf(logprobs, form) : null };
}
