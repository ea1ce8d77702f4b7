import type { Thinking } from '../../chat/index.ts';
import type { Effort } from '../../wires/core/types.ts';

/**
 * Maps a reasoning effort to the nearest setting that templates support; undefined selects the template's default.
 */
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
