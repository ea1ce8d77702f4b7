import type { Thinking } from '../../chat/index.ts';

/** How much a model should think, in the words of OpenAI's wires and Anthropic's. */
export const efforts = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const;
type Effort = (typeof efforts)[number];

/** The nearest of what templates know; absent is the template's own. */
export function toThinking(effort: Effort | null | undefined): Thinking | undefined {
  switch (effort) {
    case null:
    case undefined:
      return undefined;
    case 'none':
      return false;
    case 'minimal':
      return 'low';
    case 'xhigh':
    case 'max':
      return 'high';
    default:
      return effort;
  }
}
