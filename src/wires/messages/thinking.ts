import type { UpstreamModel } from '../core/types.ts';
import type { Conversation } from '../core/conversation.ts';
import { budgetOf, effortOf, levelsOf, nearestEffort } from '../core/effort.ts';
import type { Violations } from '../core/violations.ts';
import type { Turn } from './turns.ts';

/** Members of the request that say how to think; empty where the model decides. */
export interface Thinking {
  readonly thinking?: { readonly type: string; readonly [member: string]: unknown };
  readonly effort?: string;
}

/** The provider's own limit. */
const leastBudget = 1024;

export interface ThinkingWish {
  readonly conversation: Conversation;
  readonly turns: readonly Turn[];
  readonly model: UpstreamModel;
  readonly maxTokens: number;
}

/**
 * Reasoning as the model takes it: levels of effort with adaptive thinking, or a budget of tokens. A demand for a call of a
 * tool cannot go with thinking, and wins: effort and budget say how much the model may think at the most, `tool_choice`
 * says what the answer must be.
 */
export function thinkingOf(wish: ThinkingWish, faults: Violations): Thinking {
  const { conversation, turns, model, maxTokens } = wish;
  const { reasoning, toolChoice } = conversation;
  if (!model.caps.has('reasoning') || !reasoning) return {};
  const isForced =
    conversation.tools.length > 0 && (toolChoice === 'required' || typeof toolChoice === 'object');
  if (levelsOf(model).length > 0) return adaptive(wish, isForced);

  const budget = budgetFor(wish, faults);
  if (budget === undefined) return {};
  if (budget === 0 || isForced || !mayThink(turns)) return { thinking: { type: 'disabled' } };
  return { thinking: { type: 'enabled', budget_tokens: Math.min(budget, maxTokens - 1) } };
}

function adaptive(
  { conversation: { reasoning }, model, maxTokens }: ThinkingWish,
  isForced: boolean,
): Thinking {
  const wanted =
    reasoning?.effort ??
    (reasoning?.maxTokens === undefined ? undefined : effortOf(reasoning.maxTokens, maxTokens));
  if (wanted === undefined) return {};
  const level = nearestEffort(wanted, levelsOf(model));
  if (level === undefined || level === 'none') return { thinking: { type: 'disabled' } };
  // `minimal` is other providers' word.
  const effort = level === 'minimal' ? 'low' : level;
  // Newer models think unless told not to.
  if (isForced)
    return { ...(levelsOf(model).includes('none') ? { thinking: { type: 'disabled' } } : {}), effort };
  // What the model thought is not shown by newer models unless asked for.
  return { thinking: { type: 'adaptive', display: 'summarized' }, effort };
}

/** 0: no thinking. */
function budgetFor(
  { conversation: { reasoning }, maxTokens }: ThinkingWish,
  faults: Violations,
): number | undefined {
  const asked = reasoning?.maxTokens;
  if (asked !== undefined) {
    if (asked !== 0 && asked < leastBudget)
      faults.add(
        'reasoning.max_tokens',
        `must be at least ${leastBudget} for this model, or 0, and is ${asked}`,
      );
    else if (asked >= maxTokens)
      faults.add(
        'reasoning.max_tokens',
        `${asked} tokens to think leave no room for the answer within max_tokens, ${maxTokens}; ` +
          'raise max_tokens above it, or think less',
      );
    return asked;
  }
  if (reasoning?.effort === undefined) return undefined;
  const budget = budgetOf(reasoning.effort, maxTokens);
  if (budget >= leastBudget) return budget;
  // The nearer of the least and nothing, as long as half of the tokens are left for the answer.
  return budget * 2 >= leastBudget && maxTokens >= 2 * leastBudget ? leastBudget : 0;
}

/**
 * With a budget, the last turn of the assistant must begin with a sealed thought where it is still going on: before the
 * results of its calls, or as the beginning of the answer. Callers often send none back.
 */
function mayThink(turns: readonly Turn[]): boolean {
  const last = turns.at(-1);
  const going =
    last?.role === 'assistant' ? last : last?.content[0]?.type === 'tool_result' ? turns.at(-2) : undefined;
  if (!going) return true;
  const first = going.content[0]?.type;
  return first === 'thinking' || first === 'redacted_thinking';
}
