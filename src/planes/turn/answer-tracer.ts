import type { Timings } from '../../engine/index.ts';
import type { CompletionAttributes, TraceSpan } from '../../tracing/index.ts';
import { type AnswerEnd, AnswerTranscripts, type TranscriptEvent } from './transcript.ts';

type End = AnswerEnd & { readonly choice?: number };

/**
 * Records the transcript and the usage of a request's answers on its span. Usage is recorded only when all answers
 * completed, because a partial sum would be mistaken for the total.
 */
export class AnswerTracer {
  readonly #span: TraceSpan<'completion'>;
  readonly #answers: AnswerCounts;
  readonly #transcripts: AnswerTranscripts | undefined;
  readonly #ends: End[] = [];

  constructor(span: TraceSpan<'completion'>, answers: AnswerCounts) {
    this.#span = span;
    this.#answers = answers;
    this.#transcripts = span.transcript && new AnswerTranscripts(span);
  }

  record(event: TranscriptEvent): void {
    this.#transcripts?.add(event);
    if (event.type !== 'end') {
      if (event.type !== 'prompt') this.#span.markFirstToken();
    } else if (this.#ends.push(event) === this.#answers.total)
      recordUsage(this.#span, this.#ends, this.#answers.answersPerPrompt);
  }

  /** Ends the recording; no more events follow. */
  end(): void {
    this.#transcripts?.end();
  }
}

/** Number of answers in total and per prompt; each prompt is counted once. */
interface AnswerCounts {
  readonly total: number;
  readonly answersPerPrompt: number;
}

/** @param answersPerPrompt number of answers per prompt */
function recordUsage(span: TraceSpan<'completion'>, ends: readonly End[], answersPerPrompt: number): void {
  const firsts = ends.filter(({ choice = 0 }) => choice % answersPerPrompt === 0);
  // The answers are generated concurrently: the longest time is the request's.
  const longest = (member: keyof Timings) => maxOrUndefined(ends.map(({ timings }) => timings?.[member]));
  const known: { [Fact in keyof CompletionAttributes]?: CompletionAttributes[Fact] | undefined } = {
    answers: ends.length,
    promptTokens: sumOrUndefined(firsts.map(({ usage }) => usage.prompt_tokens)),
    cachedTokens: sumOrUndefined(firsts.map(({ usage }) => usage.cached_tokens)),
    completionTokens: sumOrUndefined(ends.map(({ usage }) => usage.completion_tokens)),
    queuedMs: longest('queued_ms'),
    prefillMs: longest('prefill_ms'),
    decodeMs: longest('decode_ms'),
    finish: ends.at(-1)?.finishReason,
  };
  Object.assign(
    span.attributes,
    Object.fromEntries(Object.entries(known).filter(([, value]) => value !== undefined)),
  );
  // Disconnecting after the last piece does not count as abandoning the request.
  if (span.attributes.stream) span.end({ outcome: 'ok', status: 200 });
}

type OptionalNumbers = readonly (number | undefined)[];

const sumOrUndefined = (values: OptionalNumbers): number | undefined =>
  values.reduce((all, one) => (all === undefined || one === undefined ? undefined : all + one), 0);

const maxOrUndefined = (values: OptionalNumbers): number | undefined =>
  values.reduce((a, b) => (a === undefined || b === undefined ? undefined : Math.max(a, b)));
