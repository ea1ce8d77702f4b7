import { invalidBody } from '../../http/violations.ts';

/** Answers of one request, and how many full contexts they may take together. */
const most = { answers: 1024, contexts: 32 };

/** How much a request asks for; where it asks for several answers, `member` says so. */
export interface Asked {
  readonly answers: number;
  readonly member: 'n' | 'n_cmpl' | 'best_of' | 'prompt';
  /** Tokens of each answer, where the request names a number. */
  readonly tokens: number | null | undefined;
}

/**
 * Tokens that each answer of a request may have at most, so that no request takes the host for itself. A request that
 * asks for more by its own numbers is refused; one without a number gets less than it could have alone. One answer has
 * the context as its only bound, which whoever knows the prompt checks.
 */
export function answerShare({ answers, member, tokens }: Asked, context: number): number {
  if (answers > most.answers) {
    const message = `the request asks for ${answers} answers; at most ${most.answers} are possible`;
    throw invalidBody([{ path: member, message }]);
  }
  const together = most.contexts * context;
  if (answers > 1 && typeof tokens === 'number' && answers * tokens > together) {
    const message =
      `${answers} answers of up to ${tokens} tokens are ${answers * tokens}; one request may ask for ${together} ` +
      `(${most.contexts} contexts of ${context}): ask for fewer or shorter answers`;
    throw invalidBody([{ path: member, message }]);
  }
  return Math.floor(together / answers);
}
