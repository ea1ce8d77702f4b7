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
const minBudget = 1024;

export interface ThinkingContext {
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
export function resolveThinking(context: ThinkingContext, violations: Violations): Thinking {
  const { conversation, turns, model, maxTokens } = context;
  const { reasoning, toolChoice } = conversation;
  if (!model.caps.has('reasoning') || !reasoning) return {};
  const isForced =
    conversation.tools.length > 0 && (toolChoice === 'required' || typeof toolChoice === 'object');
  if (levelsOf(model).length > 0) return resolveAdaptive(context, isForced);

  const budget = resolveBudget(context, violations);
  if (budget === undefined) return {};
  if (budget === 0 || isForced || !canThink(turns)) return { thinking: { type: 'disabled' } };
  return { thinking: { type: 'enabled', budget_tokens: Math.min(budget, maxTokens - 1) } };
}

function resolveAdaptive(
  { conversation: { reasoning }, model, maxTokens }: ThinkingContext,
  isForced: boolean,
): Thinking {
  const requestedEffort =
    reasoning?.effort ??
    (reasoning?.maxTokens === undefined ? undefined : effortOf(reasoning.maxTokens, maxTokens));
  if (requestedEffort === undefined) return {};
  const level = nearestEffort(requestedEffort, levelsOf(model));
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
function resolveBudget(
  { conversation: { reasoning }, maxTokens }: ThinkingContext,
  violations: Violations,
): number | undefined {
  const requestedTokens = reasoning?.maxTokens;
  if (requestedTokens !== undefined) {
    if (requestedTokens !== 0 && requestedTokens < minBudget)
      violations.add(
        'reasoning.max_tokens',
        `must be at least ${minBudget} for this model, or 0, and is ${requestedTokens}`,
      );
    else if (requestedTokens >= maxTokens)
      violations.add(
        'reasoning.max_tokens',
        `a budget of ${requestedTokens} tokens leaves no room for the answer within max_tokens, ${maxTokens}; ` +
          'raise max_tokens above it, or lower the budget',
      );
    return requestedTokens;
  }
  if (reasoning?.effort === undefined) return undefined;
  const budget = budgetOf(reasoning.effort, maxTokens);
  if (budget >= minBudget) return budget;
  // Rounds to the minimum or to 0, provided that half of the tokens remain for the answer.
  return budget * 2 >= minBudget && maxTokens >= 2 * minBudget ? minBudget : 0;
}

/**
 * Whether thinking may be enabled. With a budget, an unfinished assistant turn must begin with signed thinking: before
 * tool results, or as the beginning of the answer. Callers often do not return it.
 */
function canThink(turns: readonly Turn[]): boolean {
  const last = turns.at(-1);
  const unfinished =
    last?.role === 'assistant' ? last : last?.content[0]?.type === 'tool_result' ? turns.at(-2) : undefined;
  if (!unfinished) return true;
  const first = unfinished.content[0]?.type;
  return first === 'thinking' || first === 'redacted_thinking';
}
