import { isRecord, type Json } from '../../util/json.ts';
import type { AnswerEvent } from '../core/answer.ts';
import type { Usage } from '../core/types.ts';

export const noUsage: Usage = { fresh: 0, cacheWrite: 0, cacheWrite1h: 0, cacheRead: 0, output: 0 };

/** What an evaluated prompt counts before its answer's first token. */
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
 * The count of tokens as it comes in a stream. Every report is cumulative and overwrites the ones before, member by member:
 * one that is missing or null keeps its value. Nothing is ever added up over reports.
 */
export class UsageMeter {
  #input = 0;
  #output = 0;
  #read = 0;
  /** All writes, whatever their time to live. */
  #written: number | undefined;
  #written5m = 0;
  #written1h = 0;
  #thought: number | undefined;
  #elsewhere: Usage = noUsage;
  #isKnown = false;

  /** @param report `usage` of an event or a message; undefined as long as no report counts anything */
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
 * Turns of the answering model that are not within the counts of the answer itself. Those of an advisor are another model's,
 * for which the rate card has no price: requests that name one are refused, and what a provider does unasked is not the
 * caller's.
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

/** `usage` of a message, and of the last report in a stream. */
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
