import { estimateTokensOverLimit } from '../../chat/estimate-tokens.ts';
import type { Tokenizer } from '../../engine/index.ts';
import { HttpError } from '../../http/error.ts';
import { invalidBodyError } from '../../http/violations.ts';

/** Refuses a text that is certainly too long before it is fully encoded; see `overlong`. */
export async function refuseOverlong(
  tokenizer: Tokenizer,
  text: string,
  limit: number,
  param: Param,
  options: { parseSpecial?: boolean } = {},
): Promise<void> {
  const tokens = await estimateTokensOverLimit(tokenizer, text, limit, options);
  if (tokens === undefined) return;
  throw contextExceededError(
    limit,
    `${isInput(param) ? param : 'the prompt'} has about ${tokens}`,
    param,
    tokens,
  );
}

/** Refuses token ids that the model does not have. @returns the ids */
export function requireKnownTokens<Ids extends readonly number[]>(
  { vocabSize }: Pick<Tokenizer, 'vocabSize'>,
  ids: Ids,
  path: string,
): Ids {
  const unknownId = ids.find((id) => id >= vocabSize);
  if (unknownId === undefined) return ids;
  throw invalidBodyError([{ path, message: unknownTokenMessage(unknownId, vocabSize) }]);
}

export const unknownTokenMessage = (id: number, vocabSize: number): string =>
  `no such token: ${id} (the model has ids 0 to ${vocabSize - 1})`;

/**
 * @param what describes the number of tokens that exceeds the limit, as part of the sentence
 * @param promptTokens tokens of the prompt, where they were counted
 */
export function contextExceededError(
  limit: number,
  what: string,
  param: Param,
  promptTokens?: number,
): HttpError {
  const message = isInput(param)
    ? `This model embeds texts of up to ${limit} tokens, but ${what}. Cut them into shorter pieces.`
    : `This model's context holds ${limit} tokens, but ${what}. Shorten the prompt or ask for a shorter answer.`;
  const exceeded = promptTokens === undefined ? {} : { exceeded: { promptTokens, contextLength: limit } };
  return new HttpError(400, 'context_length_exceeded', message, { param, ...exceeded });
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
export function resolveMaxTokens(
  promptTokens: number,
  context: number,
  param: 'messages' | 'prompt',
  requested: number | null | undefined,
  defaultLimit = Number.POSITIVE_INFINITY,
): number {
  const remaining = context - promptTokens;
  if (remaining < Math.min(requested ?? 1, 1))
    throw contextExceededError(context, `the prompt has ${promptTokens}`, param, promptTokens);
  if (requested === null || requested === undefined) return Math.min(defaultLimit, remaining);
  if (requested > remaining) {
    const description = `the request asks for ${promptTokens + requested} (${promptTokens} in the prompt, ${requested} for the answer)`;
    throw contextExceededError(context, description, param, promptTokens);
  }
  return requested;
}
