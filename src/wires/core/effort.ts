import type { UpstreamModel } from './types.ts';
import type { Effort } from './types.ts';

/** Reasoning effort levels of OpenAI's and Anthropic's wires, in ascending order. */
export const efforts: readonly Effort[] = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'];

/** The effort levels that the configuration lists. */
export const levelsOf = ({ efforts: levels = [] }: Pick<UpstreamModel, 'efforts'>): readonly Effort[] =>
  levels;

/** The level nearest to the requested one, the lower of two equally near; undefined where the model has none. */
export function nearestEffort(requested: Effort, levels: readonly Effort[]): Effort | undefined {
  const requestedIndex = efforts.indexOf(requested);
  const distance = (level: Effort) => Math.abs(efforts.indexOf(level) - requestedIndex);
  return [...levels]
    .sort((a, b) => efforts.indexOf(a) - efforts.indexOf(b))
    .reduce<Effort | undefined>(
      (best, level) => (best === undefined || distance(level) < distance(best) ? level : best),
      undefined,
    );
}

/** Fractions of the answer's tokens that may be used for reasoning, for models that take a budget. */
const budgetFractions: Readonly<Record<Effort, number>> = {
  none: 0,
  minimal: 0.1,
  low: 0.2,
  medium: 0.5,
  high: 0.8,
  xhigh: 0.9,
  max: 0.95,
};

/** Reasoning budget in tokens out of `maxTokens`; 0 disables reasoning. Leaves room for the answer. */
export const budgetOf = (effort: Effort, maxTokens: number): number =>
  Math.floor(maxTokens * budgetFractions[effort]);

/** The effort whose budget is nearest to `budget` out of `maxTokens`, the lower of two equally near. */
export function effortOf(budget: number, maxTokens: number): Effort {
  const distance = (effort: Effort) => Math.abs(budgetOf(effort, maxTokens) - budget);
  return efforts.reduce((best, effort) => (distance(effort) < distance(best) ? effort : best));
}
