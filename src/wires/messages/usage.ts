import { isRecord, type Json } from '../../util/json.ts';
import type { AnswerEvent } from '../core/answer.ts';
import { readServiceTier } from '../core/billed-details.ts';
import type { ServiceTier, Usage } from '../core/types.ts';

export const noUsage: Usage = { fresh: 0, cacheWrite: 0, cacheWrite1h: 0, cacheRead: 0, output: 0 };

/** Usage of an evaluated prompt before the first token of its answer. */
export const promptUsage = ({ promptTokens, cached }: Extract<AnswerEvent, { type: 'progress' }>): Usage => ({
  ...noUsage,
  fresh: promptTokens - cached,
  cacheRead: cached,
  reasoning: 0,
});

/**
 * Token usage reported in a stream. Every report is cumulative and overwrites the previous one member by member;
 * members that are missing or null keep their value. Reports are never added up.
 */
export class UsageMeter {
  #input = 0;
  #output = 0;
  #cacheRead = 0;
  /** All cache writes, whatever their lifetime. */
  #cacheWritten: number | undefined;
  #cacheWritten5m = 0;
  #cacheWritten1h = 0;
  #reasoning: number | undefined;
  #searches = 0;
  #tier: ServiceTier | undefined;
  #separateUsage: Usage = noUsage;
  #isKnown = false;

  /**
   * @param report `usage` of an event or a message
   * @returns undefined until a report contains a count
   */
  read(report: unknown): Usage | undefined {
    if (!isRecord(report)) return undefined;
    this.#isKnown ||= typeof report.input_tokens === 'number' || typeof report.output_tokens === 'number';
    this.#input = countOr(report.input_tokens, this.#input);
    this.#output = countOr(report.output_tokens, this.#output);
    this.#cacheRead = countOr(report.cache_read_input_tokens, this.#cacheRead);
    this.#cacheWritten = countOr(report.cache_creation_input_tokens, this.#cacheWritten);
    if (isRecord(report.cache_creation)) {
      this.#cacheWritten5m = countOr(report.cache_creation.ephemeral_5m_input_tokens, this.#cacheWritten5m);
      this.#cacheWritten1h = countOr(report.cache_creation.ephemeral_1h_input_tokens, this.#cacheWritten1h);
    }
    if (isRecord(report.output_tokens_details))
      this.#reasoning = countOr(report.output_tokens_details.thinking_tokens, this.#reasoning);
    if (isRecord(report.server_tool_use))
      this.#searches = countOr(report.server_tool_use.web_search_requests, this.#searches);
    if (typeof report.service_tier === 'string') this.#tier = readServiceTier(report.service_tier);
    if (Array.isArray(report.iterations)) this.#separateUsage = sumSeparateIterations(report.iterations);
    return this.#isKnown ? this.#usage() : undefined;
  }

  #usage(): Usage {
    const cacheWritten = this.#cacheWritten ?? this.#cacheWritten5m + this.#cacheWritten1h;
    const cacheWritten1h = Math.min(this.#cacheWritten1h, cacheWritten);
    const separate = this.#separateUsage;
    return {
      fresh: this.#input + separate.fresh,
      cacheWrite: cacheWritten - cacheWritten1h + separate.cacheWrite,
      cacheWrite1h: cacheWritten1h + separate.cacheWrite1h,
      cacheRead: this.#cacheRead + separate.cacheRead,
      output: this.#output + separate.output,
      ...(this.#reasoning === undefined ? {} : { reasoning: this.#reasoning }),
      ...(this.#searches > 0 ? { hostedCalls: { web_search: this.#searches } } : {}),
      ...(this.#tier ? { tier: this.#tier } : {}),
    };
  }
}

/**
 * Iterations of the answering model that are not included in the counts of the answer. Advisor iterations are by
 * another model without a configured price: requests for an advisor are refused, and iterations that a provider runs
 * unasked are not billed to the caller.
 */
const separateIterations = new Set<unknown>(['compaction']);

function sumSeparateIterations(iterations: readonly unknown[]): Usage {
  return iterations
    .filter((iteration): iteration is Json => isRecord(iteration) && separateIterations.has(iteration.type))
    .map((iteration) => new UsageMeter().read(iteration) ?? noUsage)
    .reduce(
      (sum, iterationUsage) => ({
        fresh: sum.fresh + iterationUsage.fresh,
        cacheWrite: sum.cacheWrite + iterationUsage.cacheWrite,
        cacheWrite1h: sum.cacheWrite1h + iterationUsage.cacheWrite1h,
        cacheRead: sum.cacheRead + iterationUsage.cacheRead,
        output: sum.output + iterationUsage.output,
      }),
      noUsage,
    );
}

function countOr<Fallback extends number | undefined>(value: unknown, fallback: Fallback): number | Fallback {
  return typeof value === 'number' && value >= 0 ? value : fallback;
}

/** The `usage` member of a message and of the last report in a stream. */
export const writeUsage = (usage: Usage) => ({
  input_tokens: usage.fresh,
  cache_creation_input_tokens: usage.cacheWrite + usage.cacheWrite1h,
  cache_read_input_tokens: usage.cacheRead,
  cache_creation: {
    ephemeral_5m_input_tokens: usage.cacheWrite,
    ephemeral_1h_input_tokens: usage.cacheWrite1h,
  },
  output_tokens: usage.output,
  ...(usage.reasoning === undefined ? {} : { output_tokens_details: { thinking_tokens: usage.reasoning } }),
});
