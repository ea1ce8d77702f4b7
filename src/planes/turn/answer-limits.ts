import { invalidBodyError } from '../../http/violations.ts';

/** Limits of one request: number of answers, and total tokens as a multiple of the context length. */
const limits = { answers: 1024, contexts: 32 };

/** The answers that a request asks for; `member` is the request member that sets their number. */
export interface RequestedAnswers {
  readonly answers: number;
  readonly member: 'n' | 'n_cmpl' | 'best_of' | 'prompt';
  /** Requested tokens per answer, where the request sets them. */
  readonly tokens: number | null | undefined;
}

/**
 * Maximum tokens of each answer, so that one request cannot occupy the host. A request that explicitly asks for more is
 * refused; a request without a token limit gets less per answer than a single answer would. A single answer is bounded
 * by the context alone, which the caller checks against the prompt length.
 */
export function maxTokensPerAnswer({ answers, member, tokens }: RequestedAnswers, context: number): number {
  if (answers > limits.answers) {
    const message = `the request asks for ${answers} answers; at most ${limits.answers} are possible`;
    throw invalidBodyError([{ path: member, message }]);
  }
  const maxTotalTokens = limits.contexts * context;
  if (answers > 1 && typeof tokens === 'number' && answers * tokens > maxTotalTokens) {
    const message =
      `${answers} answers of up to ${tokens} tokens are ${answers * tokens}; one request may ask for ${maxTotalTokens} ` +
      `(${limits.contexts} contexts of ${context}): ask for fewer or shorter answers`;
    throw invalidBodyError([{ path: member, message }]);
  }
  return Math.floor(maxTotalTokens / answers);
}
