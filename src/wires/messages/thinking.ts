import type { UpstreamModel } from '../core/types.ts';
import type { Conversation } from '../core/conversation.ts';
import { budgetOf, effortOf, levelsOf, nearestEffort } from '../core/effort.ts';
import type { Violations } from '../core/violations.ts';
import type { Turn } from './turns.ts';

/** Request members that control thinking; empty where the model decides. */
export interface Thinking {
  readonly thinking?: { readonly type: string; readonly [member: string]: unknown };
  readonly effort?: string;
}

/** Minimum budget of the provider. */
const leastBudget = 1024;

export interface ThinkingWish {
  readonly conversation: Conversation;
  readonly turns: readonly Turn[];
  readonly model: UpstreamModel;
  readonly maxTokens: number;
}

/**
 * Converts the reasoning settings for the model: effort levels with adaptive thinking, or a token budget. A required
 * tool call is incompatible with thinking and takes precedence: effort and budget are upper bounds, but `tool_choice`
 * is a requirement.
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
  // Anthropic has no `minimal`.
  const effort = level === 'minimal' ? 'low' : level;
  // Newer models think unless it is disabled.
  if (isForced)
    return { ...(levelsOf(model).includes('none') ? { thinking: { type: 'disabled' } } : {}), effort };
  // Newer models omit the thinking text unless requested.
  return { thinking: { type: 'adaptive', display: 'summarized' }, effort };
}

/** Returns the token budget; 0 disables thinking. */
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
        `a budget of ${asked} tokens leaves no room for the answer within max_tokens, ${maxTokens}; ` +
          'raise max_tokens above it, or lower the budget',
      );
    return asked;
  }
  if (reasoning?.effort === undefined) return undefined;
  const budget = budgetOf(reasoning.effort, maxTokens);
  if (budget >= leastBudget) return budget;
  // Rounds to the minimum or to 0, provided that half of the tokens remain for the answer.
  return budget * 2 >= leastBudget && maxTokens >= 2 * leastBudget ? leastBudget : 0;
}

/**
 * Whether thinking may be enabled. With a budget, an unfinished assistant turn must begin with signed thinking: before
 * tool results, or as the beginning of the answer. Callers often do not return it.
 */
function mayThink(turns: readonly Turn[]): boolean {
  const last = turns.at(-1);
  const going =
    last?.role === 'assistant' ? last : last?.content[0]?.type === 'tool_result' ? turns.at(-2) : undefined;
  if (!going) return true;
  const first = going.content[0]?.type;
  return first === 'thinking' || first === 'redacted_thinking';
}
