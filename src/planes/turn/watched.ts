import type { Timings } from '../../engine/index.ts';
import type { CompletionFacts, Work } from '../../watch/index.ts';
import { type AnswerEnd, AnswersSaid, type SaidEvent } from './said.ts';

type End = AnswerEnd & { readonly choice?: number };

/**
 * Records the transcript and the usage of a request's answers on its span. Usage is recorded only when all answers
 * completed, because a partial sum would be mistaken for the total.
 */
export class Watcher {
  readonly #work: Work<'completion'>;
  readonly #answers: AnswerCounts;
  readonly #said: AnswersSaid | undefined;
  readonly #ends: End[] = [];

  constructor(work: Work<'completion'>, answers: AnswerCounts) {
    this.#work = work;
    this.#answers = answers;
    this.#said = work.said && new AnswersSaid(work);
  }

  take(event: SaidEvent): void {
    this.#said?.take(event);
    if (event.type !== 'end') {
      if (event.type !== 'prompt') this.#work.firstToken();
    } else if (this.#ends.push(event) === this.#answers.all) note(this.#work, this.#ends, this.#answers.each);
  }

  /** Ends the recording; no more events follow. */
  end(): void {
    this.#said?.end();
  }
}

/** Number of answers in total and per prompt; each prompt is counted once. */
interface AnswerCounts {
  readonly all: number;
  readonly each: number;
}

/** @param answersPerPrompt number of answers per prompt */
function note(work: Work<'completion'>, ends: readonly End[], each: number): void {
  const firsts = ends.filter(({ choice = 0 }) => choice % each === 0);
  // The answers are generated concurrently: the longest time is the request's.
  const longest = (time: keyof Timings) => most(ends.map(({ timings }) => timings?.[time]));
  const known: { [Fact in keyof CompletionFacts]?: CompletionFacts[Fact] | undefined } = {
    answers: ends.length,
    promptTokens: total(firsts.map(({ usage }) => usage.prompt_tokens)),
    cachedTokens: total(firsts.map(({ usage }) => usage.cached_tokens)),
    completionTokens: total(ends.map(({ usage }) => usage.completion_tokens)),
    queuedMs: longest('queued_ms'),
    prefillMs: longest('prefill_ms'),
    decodeMs: longest('decode_ms'),
    finish: ends.at(-1)?.finishReason,
  };
  Object.assign(
    work.facts,
    Object.fromEntries(Object.entries(known).filter(([, value]) => value !== undefined)),
  );
  // Disconnecting after the last piece does not count as abandoning the request.
  if (work.facts.stream) work.end({ outcome: 'ok', status: 200 });
}

type Figures = readonly (number | undefined)[];

const total = (figures: Figures): number | undefined =>
  figures.reduce((all, one) => (all === undefined || one === undefined ? undefined : all + one), 0);

const most = (figures: Figures): number | undefined =>
  figures.reduce((a, b) => (a === undefined || b === undefined ? undefined : Math.max(a, b)));
