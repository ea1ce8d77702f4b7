import { overlong } from '../../chat/overlong.ts';
import type { Tokenizer } from '../../engine/index.ts';
import { HttpError } from '../../http/error.ts';
import { invalidBody } from '../../http/violations.ts';

/** Refuses a text that is certainly too long before it is fully encoded; see `overlong`. */
export async function refuseOverlong(
  tokenizer: Tokenizer,
  text: string,
  limit: number,
  param: Param,
  options: { parseSpecial?: boolean } = {},
): Promise<void> {
  const tokens = await overlong(tokenizer, text, limit, options);
  if (tokens === undefined) return;
  throw contextExceeded(limit, `${isInput(param) ? param : 'the prompt'} has about ${tokens}`, param);
}

/** Refuses token ids that the model does not have. @returns the ids */
export function requireTokens<Ids extends readonly number[]>(
  { vocabSize }: Pick<Tokenizer, 'vocabSize'>,
  ids: Ids,
  path: string,
): Ids {
  const stranger = ids.find((id) => id >= vocabSize);
  if (stranger === undefined) return ids;
  throw invalidBody([{ path, message: noSuchToken(stranger, vocabSize) }]);
}

export const noSuchToken = (id: number, vocabSize: number): string =>
  `no such token: ${id} (the model has ids 0 to ${vocabSize - 1})`;

/** @param what describes the number of tokens that exceeds the limit, as part of the sentence */
export function contextExceeded(limit: number, what: string, param: Param): HttpError {
  const message = isInput(param)
    ? `This model embeds texts of up to ${limit} tokens, but ${what}. Cut them into shorter pieces.`
    : `This model's context holds ${limit} tokens, but ${what}. Shorten the prompt or ask for a shorter answer.`;
  return new HttpError(400, 'context_length_exceeded', message, { param });
}

/** The request member with the text: the prompt of an answer, or a text to embed. */
type Param = 'messages' | 'prompt' | InputParam;
export type InputParam = 'input' | `input.${number}`;
const isInput = (param: Param): param is InputParam => param.startsWith('input');

/**
 * Returns the maximum number of tokens of an answer. Throws `context_length_exceeded` where prompt and answer do not
 * fit.
 * @param requested the request's own limit
 * @param defaultLimit used where the request sets none; reduced to the remaining context
 */
export function answerLimit(
  promptTokens: number,
  context: number,
  param: 'messages' | 'prompt',
  wanted: number | null | undefined,
  usual = Number.POSITIVE_INFINITY,
): number {
  const left = context - promptTokens;
  if (left < Math.min(wanted ?? 1, 1))
    throw contextExceeded(context, `the prompt has ${promptTokens}`, param);
  if (wanted === null || wanted === undefined) return Math.min(usual, left);
  if (wanted > left) {
    const sum = `the request asks for ${promptTokens + wanted} (${promptTokens} in the prompt, ${wanted} for the answer)`;
    throw contextExceeded(context, sum, param);
  }
  return wanted;
}
