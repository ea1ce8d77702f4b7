import type { Json } from '../../util/json.ts';
import type { Usage } from '../core/types.ts';

const members = [
  'promptTokenCount',
  'toolUsePromptTokenCount',
  'cachedContentTokenCount',
  'candidatesTokenCount',
  'thoughtsTokenCount',
] as const;

/**
 * `usageMetadata` comes again in every chunk of a stream and counts the whole answer so far; a count that one leaves out
 * keeps its value.
 */
export class UsageCount {
  readonly #counts = new Map<string, number>();

  /** Undefined where it holds no count at all. */
  take(metadata: Json): Usage | undefined {
    let counted = false;
    for (const name of members) {
      const value = metadata[name];
      if (typeof value !== 'number' || !(value >= 0)) continue;
      this.#counts.set(name, value);
      counted = true;
    }
    return counted ? this.#usage() : undefined;
  }

  #usage(): Usage {
    const of = (name: (typeof members)[number]) => this.#counts.get(name) ?? 0;
    // The cached ones are among those of the prompt; thoughts are not among those of the candidates.
    const input = of('promptTokenCount') + of('toolUsePromptTokenCount');
    const cacheRead = Math.min(of('cachedContentTokenCount'), input);
    return {
      fresh: input - cacheRead,
      cacheWrite: 0,
      cacheWrite1h: 0,
      cacheRead,
      output: of('candidatesTokenCount') + of('thoughtsTokenCount'),
      reasoning: of('thoughtsTokenCount'),
    };
  }
}
