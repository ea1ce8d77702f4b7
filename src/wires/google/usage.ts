import { isRecord, type Json } from '../../util/json.ts';
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
  /** The last counts by modality of each list of details. */
  readonly #details = new Map<string, ReadonlyMap<unknown, number>>();

  /** Returns undefined where the metadata contains no count. */
  read(metadata: Json): Usage | undefined {
    let hasCounts = false;
    for (const name of members) {
      const value = metadata[name];
      if (typeof value !== 'number' || !Number.isFinite(value) || value < 0) continue;
      this.#counts.set(name, value);
      hasCounts = true;
    }
    for (const name of detailMembers) {
      const list = metadata[name];
      if (Array.isArray(list)) this.#details.set(name, readDetails(list));
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
      ...this.#media(),
    };
  }

  /** Tokens of audio and images; those of cached input have the price of the cache. */
  #media(): Partial<Usage> {
    const tokens = (list: (typeof detailMembers)[number], modality: string) =>
      this.#details.get(list)?.get(modality) ?? 0;
    const fresh = (modality: string) =>
      tokens('promptTokensDetails', modality) +
      tokens('toolUsePromptTokensDetails', modality) -
      tokens('cacheTokensDetails', modality);
    const counts = {
      audioInput: fresh('AUDIO'),
      imageInput: fresh('IMAGE'),
      audioOutput: tokens('candidatesTokensDetails', 'AUDIO'),
      imageOutput: tokens('candidatesTokensDetails', 'IMAGE'),
    };
    return Object.fromEntries(Object.entries(counts).filter(([, count]) => count > 0));
  }
}

const detailMembers = [
  'promptTokensDetails',
  'toolUsePromptTokensDetails',
  'cacheTokensDetails',
  'candidatesTokensDetails',
] as const;

/** @returns tokens by modality */
function readDetails(list: readonly unknown[]): ReadonlyMap<unknown, number> {
  const counts = new Map<unknown, number>();
  for (const entry of list) {
    if (!isRecord(entry)) continue;
    const { modality, tokenCount } = entry;
    if (typeof tokenCount === 'number' && Number.isFinite(tokenCount) && tokenCount > 0)
      counts.set(modality, (counts.get(modality) ?? 0) + tokenCount);
  }
  return counts;
}
