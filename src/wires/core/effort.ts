import type { UpstreamModel } from './types.ts';
import type { Effort } from './types.ts';

/** How much a model should think, in the words of OpenAI's wires and Anthropic's; the least first. */
export const efforts: readonly Effort[] = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'];

/** The levels that the configuration names. */
export const levelsOf = ({ efforts: levels = [] }: Pick<UpstreamModel, 'efforts'>): readonly Effort[] =>
  levels;

/** The level of a model that is nearest to the one asked for, the lower of two; undefined where it has none. */
export function nearestEffort(wanted: Effort, levels: readonly Effort[]): Effort | undefined {
  const place = efforts.indexOf(wanted);
  const distance = (level: Effort) => Math.abs(efforts.indexOf(level) - place);
  return [...levels]
    .sort((a, b) => efforts.indexOf(a) - efforts.indexOf(b))
    .reduce<Effort | undefined>(
      (best, level) => (best === undefined || distance(level) < distance(best) ? level : best),
      undefined,
    );
}

/** Shares of the answer's tokens that may be thought, for models that take a budget. */
const shares: Readonly<Record<Effort, number>> = {
  none: 0,
  minimal: 0.1,
  low: 0.2,
  medium: 0.5,
  high: 0.8,
  xhigh: 0.9,
  max: 0.95,
};

/** The tokens to think with of `maxTokens`; 0: no thinking. Leaves room for the answer. */
export const budgetOf = (effort: Effort, maxTokens: number): number => Math.floor(maxTokens * shares[effort]);

/** The effort whose budget is nearest to `budget` of `maxTokens`, the lower of two. */
export function effortOf(budget: number, maxTokens: number): Effort {
  const distance = (effort: Effort) => Math.abs(budgetOf(effort, maxTokens) - budget);
  return efforts.reduce((best, effort) => (distance(effort) < distance(best) ? effort : best));
}
