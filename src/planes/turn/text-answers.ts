import type { Tokenizer, TokenLogprob } from '../../engine/index.ts';
import type { TraceSpan } from '../../tracing/index.ts';
import { type AnswerEvent, concatLogprobs, type TextLogprobs } from '../../wires/core/answer.ts';
import type { AnswerBatches } from '../../wires/core/backend.ts';
import type { ChoiceEvent, TextRequest } from './choices.ts';
import { countCodePoints, TextLogprobWriter } from './logprobs.ts';
import { toSharedTimings, toTimings } from './timings.ts';
import { toUsage } from './usage.ts';
import { AnswerTracer } from './answer-tracer.ts';

/** A prompt, and the text that `echo` prepends to its answers. */
export interface TextJob {
  readonly request: TextRequest;
  readonly echo: string;
}

/** Options of answers to several prompts. */
export interface TextAnswerOptions {
  readonly jobs: readonly TextJob[];
  /** Answers generated per prompt (`best_of`). */
  readonly generatedPerPrompt: number;
  /** The most likely of them, which are returned (`n`). */
  readonly returnedPerPrompt: number;
  readonly tokenizer: Tokenizer;
  /** Whether log probabilities are returned. */
  readonly logprobs: boolean;
  readonly span?: TraceSpan<'completion'> | undefined;
}

/** Writes one answer piece by piece: the echo first, then text with its tokens. */
class TextAnswerWriter {
  readonly #job: TextJob;
  readonly #options: TextAnswerOptions;
  readonly #writer: TextLogprobWriter;
  #hasBegun = false;
  /** Code points of the text so far. */
  #writtenCount = 0;
  #pending: TextLogprobs = concatLogprobs([]);

  constructor(options: TextAnswerOptions, choice: number) {
    this.#options = options;
    this.#job = options.jobs[Math.floor(choice / options.generatedPerPrompt)] as TextJob;
    this.#writer = new TextLogprobWriter(options.tokenizer);
  }

  /** Returns the text that an event adds to the answer; undefined where it adds nothing. */
  write(event: ChoiceEvent): { text: string; textLogprobs?: TextLogprobs } | undefined {
    const textEvent = event.type === 'text' ? event : undefined;
    const text = (this.#hasBegun ? '' : this.#job.echo) + (textEvent?.text ?? '');
    const prompt = this.#hasBegun ? undefined : textEvent?.prompt;
    this.#hasBegun = true;
    this.#writtenCount += countCodePoints(text);
    const parts = [this.#pending];
    if (this.#options.logprobs && prompt) parts.push(this.#promptLogprobs(prompt));
    if (this.#options.logprobs && textEvent?.logprobs)
      parts.push(this.#writer.write(textEvent.ids, textEvent.logprobs));
    const logprobs = this.#withholdPending(concatLogprobs(parts), event);
    if (text === '' && logprobs.tokens.length === 0) return undefined;
    return { text, ...(logprobs.tokens.length > 0 ? { textLogprobs: logprobs } : {}) };
  }

  /**
   * Withholds tokens whose text is still held back. Tokens of a stop text are dropped, because it is not part of the
   * answer.
   */
  #withholdPending(all: TextLogprobs, event: ChoiceEvent): TextLogprobs {
    const first = all.text_offset.findIndex((offset) => offset >= this.#writtenCount);
    const isComplete = event.type === 'end' && event.stopText === undefined;
    if (isComplete || first === -1) {
      this.#pending = concatLogprobs([]);
      return all;
    }
    this.#pending = sliceLogprobs(all, first);
    return sliceLogprobs(all, 0, first);
  }

  #promptLogprobs(entries: readonly (TokenLogprob | null)[]): TextLogprobs {
    const { prompt } = this.#job.request;
    const { bosId } = this.#options.tokenizer;
    // BOS is part of the echoed text only where the prompt text contains it.
    const isBosHidden =
      prompt[0] === bosId &&
      bosId !== undefined &&
      !this.#job.echo.startsWith(this.#options.tokenizer.tokenText(bosId));
    return this.#writer.write(prompt, entries, (index) => index > 0 || !isBosHidden);
  }
}

const sliceLogprobs = (all: TextLogprobs, from: number, to?: number): TextLogprobs => ({
  tokens: all.tokens.slice(from, to),
  token_logprobs: all.token_logprobs.slice(from, to),
  top_logprobs: all.top_logprobs.slice(from, to),
  text_offset: all.text_offset.slice(from, to),
});

/**
 * Yields the events of text answers as they are generated. Where more answers are generated than returned, events
 * follow when all are complete.
 */
export async function* streamTextAnswers(
  choices: AsyncGenerator<ChoiceEvent, void, undefined>,
  options: TextAnswerOptions,
): AnswerBatches {
  const { jobs, generatedPerPrompt, returnedPerPrompt, span } = options;
  const writers = new Map<number, TextAnswerWriter>();
  const ends: End[] = [];
  const answers = jobs.length * generatedPerPrompt;
  const selector = generatedPerPrompt > returnedPerPrompt ? new BestOfSelector(options) : undefined;
  const tracer = span && new AnswerTracer(span, { total: answers, answersPerPrompt: generatedPerPrompt });
  try {
    for await (const event of choices) {
      tracer?.record(event);
      const { choice, measured } = event;
      const origin = { choice, ...(measured ? { timings: measured.timings } : {}) };
      if (event.type === 'prompt') {
        const { processed, cached, ms } = event;
        if (measured)
          yield [{ ...origin, type: 'progress', promptTokens: measured.promptTokens, processed, cached, ms }];
        continue;
      }
      const writer = writers.get(choice) ?? new TextAnswerWriter(options, choice);
      writers.set(choice, writer);
      const piece = writer.write(event);
      const batch: AnswerEvent[] = piece ? [{ ...origin, type: 'text', ...piece }] : [];
      if (event.type === 'end') {
        writers.delete(choice);
        ends.push(event);
        const { finishReason: reason } = event;
        batch.push({ type: 'finish', choice, reason, timings: toTimings(event) });
      }
      selector?.take(event, batch);
      const emitted = selector ? [] : batch;
      if (ends.length === answers)
        emitted.push(...(selector?.events() ?? []), {
          type: 'usage',
          usage: toUsage(ends, generatedPerPrompt),
          timings: toSharedTimings(ends, generatedPerPrompt),
        });
      if (emitted.length > 0) yield emitted;
    }
  } finally {
    tracer?.end();
  }
}

type End = Extract<ChoiceEvent, { type: 'end' }>;

/** Events and token probabilities of an answer, until all answers are complete. */
interface GeneratedAnswer {
  readonly events: AnswerEvent[];
  sum: number;
  tokens: number;
}

/** Selects the most likely answers of each prompt. */
class BestOfSelector {
  readonly #options: TextAnswerOptions;
  readonly #generated: GeneratedAnswer[] = [];

  constructor(options: TextAnswerOptions) {
    this.#options = options;
  }

  take(event: ChoiceEvent, emitted: readonly AnswerEvent[]): void {
    const generated = (this.#generated[event.choice] ??= { events: [], sum: 0, tokens: 0 });
    generated.events.push(...emitted);
    if (event.type !== 'text') return;
    for (const { logprob } of event.logprobs ?? []) generated.sum += logprob;
    generated.tokens += event.logprobs?.length ?? 0;
  }

  /** The events of the selected answers, in the order of the prompts. */
  events(): AnswerEvent[] {
    const { jobs, generatedPerPrompt, returnedPerPrompt } = this.#options;
    return jobs.flatMap((_, prompt) =>
      this.#generated
        .slice(prompt * generatedPerPrompt, (prompt + 1) * generatedPerPrompt)
        .sort((a, b) => meanLogprob(b) - meanLogprob(a))
        .slice(0, returnedPerPrompt)
        .flatMap(({ events }, k) =>
          events.map((event) => ({ ...event, choice: prompt * returnedPerPrompt + k })),
        ),
    );
  }
}

/** An answer without tokens ranks first. */
const meanLogprob = ({ sum, tokens }: GeneratedAnswer): number => (tokens === 0 ? 0 : sum / tokens);
