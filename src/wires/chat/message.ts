import type { Json } from '../../util/json.ts';
import type { AnswerEvent, FinishReason, TokenLogprob } from '../core/answer.ts';
import { writeChoiceLogprobs, type ResidentAnswerOptions } from './resident-answer-options.ts';

export type Choice = Readonly<{ message: Json; finish: FinishReason; logprobs: Json | null }>;

/**
 * Combines reasoning texts and their signatures into `reasoning_details`, which callers return with the next request.
 */
export class ReasoningDetails {
  readonly all: Json[] = [];
  #unsignedText = '';
  #hasSignatures = false;

  /** @returns the details that the event completes */
  add(event: AnswerEvent): readonly Json[] {
    if (event.type === 'reasoning') this.#unsignedText += event.text;
    if (event.type !== 'reasoning_signature' && event.type !== 'encrypted_reasoning') return [];
    const details = this.#toDetails(event);
    this.#unsignedText = '';
    this.#hasSignatures = true;
    for (const detail of details) this.all.push(detail);
    return details;
  }

  #toDetails(event: Extract<AnswerEvent, { type: 'reasoning_signature' | 'encrypted_reasoning' }>): Json[] {
    const text = { type: 'reasoning.text', text: this.#unsignedText };
    if (event.type === 'reasoning_signature') return [{ ...text, signature: event.signature }];
    // The readable part of encrypted reasoning is returned with it.
    const { data, id } = event;
    const toDetails = { type: 'reasoning.encrypted', data, ...(id === undefined ? {} : { id }) };
    return this.#unsignedText === '' ? [toDetails] : [text, toDetails];
  }

  /** Undefined where nothing is signed, because the text alone is sufficient then. */
  get complete(): readonly Json[] | undefined {
    if (!this.#hasSignatures) return undefined;
    return this.#unsignedText === ''
      ? this.all
      : [...this.all, { type: 'reasoning.text', text: this.#unsignedText }];
  }
}

export const signatureMember = (signature: string | undefined): Json =>
  signature === undefined ? {} : { extra_content: { google: { thought_signature: signature } } };

/** Writes one choice from its events. @param residentOptions options of the resident model's answers */
export function writeChoice(events: readonly AnswerEvent[], residentOptions?: ResidentAnswerOptions): Choice {
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
  const { complete } = details;
  const message = {
    role: 'assistant',
    // Null only together with calls or refusals, as OpenAI does.
    content: text ?? (calls.length > 0 || refusal !== null ? null : ''),
    refusal,
    ...(reasoning === '' ? {} : { ...(residentOptions ? { reasoning_content: reasoning } : {}), reasoning }),
    ...(complete ? { reasoning_details: complete } : {}),
    ...(calls.length > 0
      ? {
          tool_calls: calls.map(({ id, name, arguments: args, signature }) => ({
            id,
            type: 'function',
            function: { name, arguments: args },
            ...signatureMember(signature),
          })),
        }
      : {}),
  };
  const hasLogprobs = residentOptions ? residentOptions.includeLogprobs : logprobs.length > 0;
  return { message, finish, logprobs: hasLogprobs ? writeChoiceLogprobs(logprobs, residentOptions) : null };
}
