import type { Thinking } from '../../chat/index.ts';
import type { Effort } from '../../wires/core/types.ts';

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
