import type { Usage as EngineUsage } from '../../engine/index.ts';
import type { Usage } from '../../wires/core/types.ts';

/** Token usage of an answer. */
export interface AnswerUsage {
  readonly choice: number;
  readonly usage: EngineUsage;
  /** Included in the answer's tokens. Default 0: the text is not a conversation. */
  readonly reasoningTokens?: number;
}

/**
 * Token usage of all answers to a request.
 * @param answersPerPrompt number of answers per prompt; the prompt is counted with the first one only
 */
export function toUsage(answers: readonly AnswerUsage[], answersPerPrompt = 1): Usage {
  const sum = (of: readonly AnswerUsage[], member: keyof EngineUsage) =>
    of.reduce((total, end) => total + end.usage[member], 0);
  const firsts = answers.filter(({ choice }) => choice % answersPerPrompt === 0);
  const cacheRead = sum(firsts, 'cached_tokens');
  return {
    fresh: sum(firsts, 'prompt_tokens') - cacheRead,
    cacheWrite: 0,
    cacheWrite1h: 0,
    cacheRead,
    output: sum(answers, 'completion_tokens'),
    reasoning: answers.reduce((total, end) => total + (end.reasoningTokens ?? 0), 0),
  };
}
