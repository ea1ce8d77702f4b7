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
 * Reads `usageMetadata`, which every chunk of a stream repeats with the counts of the whole answer so far; a missing
 * count keeps its value.
 */
export class UsageReader {
  readonly #counts = new Map<string, number>();

  /** Returns undefined where the metadata contains no count. */
  read(metadata: Json): Usage | undefined {
    let hasCounts = false;
    for (const name of members) {
      const value = metadata[name];
      if (typeof value !== 'number' || !Number.isFinite(value) || value < 0) continue;
      this.#counts.set(name, value);
      hasCounts = true;
    }
    return hasCounts ? this.#usage() : undefined;
  }

  #usage(): Usage {
    const countOf = (name: (typeof members)[number]) => this.#counts.get(name) ?? 0;
    // Cached tokens are included in the prompt tokens; thinking tokens are not included in the candidate tokens.
    const input = countOf('promptTokenCount') + countOf('toolUsePromptTokenCount');
    const cacheRead = Math.min(countOf('cachedContentTokenCount'), input);
    return {
      fresh: input - cacheRead,
      cacheWrite: 0,
      cacheWrite1h: 0,
      cacheRead,
      output: countOf('candidatesTokenCount') + countOf('thoughtsTokenCount'),
      reasoning: countOf('thoughtsTokenCount'),
    };
  }
}
