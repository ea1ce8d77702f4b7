import { isRecord, type Json } from '../../util/json.ts';
import type { AnswerEvent } from '../core/answer.ts';
import type { Usage } from '../core/types.ts';

export const noUsage: Usage = { fresh: 0, cacheWrite: 0, cacheWrite1h: 0, cacheRead: 0, output: 0 };

/** Usage of an evaluated prompt before the first token of its answer. */
export const countedPrompt = ({
  promptTokens,
  cached,
}: Extract<AnswerEvent, { type: 'progress' }>): Usage => ({
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
  #read = 0;
  /** All cache writes, whatever their lifetime. */
  #written: number | undefined;
  #written5m = 0;
  #written1h = 0;
  #thought: number | undefined;
  #elsewhere: Usage = noUsage;
  #isKnown = false;

  /**
   * @param report `usage` of an event or a message
   * @returns undefined until a report contains a count
   */
  take(report: unknown): Usage | undefined {
    if (!isRecord(report)) return undefined;
    this.#isKnown ||= typeof report.input_tokens === 'number' || typeof report.output_tokens === 'number';
    this.#input = countOr(report.input_tokens, this.#input);
    this.#output = countOr(report.output_tokens, this.#output);
    this.#read = countOr(report.cache_read_input_tokens, this.#read);
    this.#written = countOr(report.cache_creation_input_tokens, this.#written);
    if (isRecord(report.cache_creation)) {
      this.#written5m = countOr(report.cache_creation.ephemeral_5m_input_tokens, this.#written5m);
      this.#written1h = countOr(report.cache_creation.ephemeral_1h_input_tokens, this.#written1h);
    }
    if (isRecord(report.output_tokens_details))
      this.#thought = countOr(report.output_tokens_details.thinking_tokens, this.#thought);
    if (Array.isArray(report.iterations)) this.#elsewhere = sumElsewhere(report.iterations);
    return this.#isKnown ? this.#usage() : undefined;
  }

  #usage(): Usage {
    const written = this.#written ?? this.#written5m + this.#written1h;
    const written1h = Math.min(this.#written1h, written);
    const more = this.#elsewhere;
    return {
      fresh: this.#input + more.fresh,
      cacheWrite: written - written1h + more.cacheWrite,
      cacheWrite1h: written1h + more.cacheWrite1h,
      cacheRead: this.#read + more.cacheRead,
      output: this.#output + more.output,
      ...(this.#thought === undefined ? {} : { reasoning: this.#thought }),
    };
  }
}

/**
 * Iterations of the answering model that are not included in the counts of the answer. Advisor iterations are by
 * another model without a configured price: requests for an advisor are refused, and iterations that a provider runs
 * unasked are not billed to the caller.
 */
const elsewhere = new Set<unknown>(['compaction']);

function sumElsewhere(iterations: readonly unknown[]): Usage {
  return iterations
    .filter((iteration): iteration is Json => isRecord(iteration) && elsewhere.has(iteration.type))
    .map((iteration) => new UsageMeter().take(iteration) ?? noUsage)
    .reduce(
      (sum, one) => ({
        fresh: sum.fresh + one.fresh,
        cacheWrite: sum.cacheWrite + one.cacheWrite,
        cacheWrite1h: sum.cacheWrite1h + one.cacheWrite1h,
        cacheRead: sum.cacheRead + one.cacheRead,
        output: sum.output + one.output,
      }),
      noUsage,
    );
}

function countOr<Fallback extends number | undefined>(value: unknown, fallback: Fallback): number | Fallback {
  return typeof value === 'number' && value >= 0 ? value : fallback;
}

/** The `usage` member of a message and of the last report in a stream. */
export const usageMember = (usage: Usage) => ({
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
