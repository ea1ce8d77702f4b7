import type { Tokenizer, TokenLogprob } from '../../engine/index.ts';
import type { Work } from '../../watch/index.ts';
import { type AnswerEvent, joinedLogprobs, type TextLogprobs } from '../../wires/core/answer.ts';
import type { AnswerBatches } from '../../wires/core/backend.ts';
import type { ChoiceEvent, TextRequest } from './choices.ts';
import { countOf, TextLogprobWriter } from './logprobs.ts';
import { toSharedTimings, toTimings } from './timings.ts';
import { toUsage } from './usage.ts';
import { Watcher } from './watched.ts';

/** A prompt, and the text that `echo` prepends to its answers. */
export interface TextJob {
  readonly request: TextRequest;
  readonly echo: string;
}

/** Options of answers to several prompts. */
export interface TextForm {
  readonly jobs: readonly TextJob[];
  /** Answers generated per prompt (`best_of`). */
  readonly made: number;
  /** The most likely of them, which are returned (`n`). */
  readonly given: number;
  readonly tokenizer: Tokenizer;
  /** Whether log probabilities are returned. */
  readonly logprobs: boolean;
  readonly work?: Work<'completion'> | undefined;
}

/** Writes one answer piece by piece: the echo first, then text with its tokens. */
class Telling {
  readonly #job: TextJob;
  readonly #form: TextForm;
  readonly #writer: TextLogprobWriter;
  #begun = false;
  /** Code points of the text so far. */
  #written = 0;
  #waiting: TextLogprobs = joinedLogprobs([]);

  constructor(form: TextForm, choice: number) {
    this.#form = form;
    this.#job = form.jobs[Math.floor(choice / form.made)] as TextJob;
    this.#writer = new TextLogprobWriter(form.tokenizer);
  }

  /** Returns the text that an event adds to the answer; undefined where it adds nothing. */
  piece(event: ChoiceEvent): { text: string; textLogprobs?: TextLogprobs } | undefined {
    const given = event.type === 'text' ? event : undefined;
    const text = (this.#begun ? '' : this.#job.echo) + (given?.text ?? '');
    const prompt = this.#begun ? undefined : given?.prompt;
    this.#begun = true;
    this.#written += countOf(text);
    const parts = [this.#waiting];
    if (this.#form.logprobs && prompt) parts.push(this.#promptLogprobs(prompt));
    if (this.#form.logprobs && given?.logprobs) parts.push(this.#writer.write(given.ids, given.logprobs));
    const logprobs = this.#certain(joinedLogprobs(parts), event);
    if (text === '' && logprobs.tokens.length === 0) return undefined;
    return { text, ...(logprobs.tokens.length > 0 ? { textLogprobs: logprobs } : {}) };
  }

  /**
   * Withholds tokens whose text is still held back. Tokens of a stop text are dropped, because it is not part of the
   * answer.
   */
  #certain(all: TextLogprobs, event: ChoiceEvent): TextLogprobs {
    const first = all.text_offset.findIndex((offset) => offset >= this.#written);
    const whole = event.type === 'end' && event.stopText === undefined;
    if (whole || first === -1) {
      this.#waiting = joinedLogprobs([]);
      return all;
    }
    this.#waiting = part(all, first);
    return part(all, 0, first);
  }

  #promptLogprobs(entries: readonly (TokenLogprob | null)[]): TextLogprobs {
    const { prompt } = this.#job.request;
    const { bosId } = this.#form.tokenizer;
    // BOS is part of the echoed text only where the prompt text contains it.
    const hidden =
      prompt[0] === bosId &&
      bosId !== undefined &&
      !this.#job.echo.startsWith(this.#form.tokenizer.tokenText(bosId));
    return this.#writer.write(prompt, entries, (index) => index > 0 || !hidden);
  }
}

const part = (all: TextLogprobs, from: number, to?: number): TextLogprobs => ({
  tokens: all.tokens.slice(from, to),
  token_logprobs: all.token_logprobs.slice(from, to),
  top_logprobs: all.top_logprobs.slice(from, to),
  text_offset: all.text_offset.slice(from, to),
});

/**
 * Yields the events of text answers as they are generated. Where more answers are generated than returned, events
 * follow when all are complete.
 */
export async function* textAnswers(
  choices: AsyncGenerator<ChoiceEvent, void, undefined>,
  form: TextForm,
): AnswerBatches {
  const { jobs, made, given, work } = form;
  const tellings = new Map<number, Telling>();
  const ends: End[] = [];
  const answers = jobs.length * made;
  const best = made > given ? new Best(form) : undefined;
  const watcher = work && new Watcher(work, { all: answers, each: made });
  try {
    for await (const event of choices) {
      watcher?.take(event);
      const { choice, measured } = event;
      const from = { choice, ...(measured ? { timings: measured.timings } : {}) };
      if (event.type === 'prompt') {
        const { processed, cached, ms } = event;
        if (measured)
          yield [{ ...from, type: 'progress', promptTokens: measured.promptTokens, processed, cached, ms }];
        continue;
      }
      const telling = tellings.get(choice) ?? new Telling(form, choice);
      tellings.set(choice, telling);
      const piece = telling.piece(event);
      const batch: AnswerEvent[] = piece ? [{ ...from, type: 'text', ...piece }] : [];
      if (event.type === 'end') {
        tellings.delete(choice);
        ends.push(event);
        const { finishReason: reason } = event;
        batch.push({ type: 'finish', choice, reason, timings: toTimings(event) });
      }
      best?.take(event, batch);
      const told = best ? [] : batch;
      if (ends.length === answers)
        told.push(...(best?.events() ?? []), {
          type: 'usage',
          usage: toUsage(ends, made),
          timings: toSharedTimings(ends, made),
        });
      if (told.length > 0) yield told;
    }
  } finally {
    watcher?.end();
  }
}

type End = Extract<ChoiceEvent, { type: 'end' }>;

/** Events and token probabilities of an answer, until all answers are complete. */
interface Made {
  readonly events: AnswerEvent[];
  sum: number;
  tokens: number;
}

/** Selects the most likely answers of each prompt. */
class Best {
  readonly #form: TextForm;
  readonly #made: Made[] = [];

  constructor(form: TextForm) {
    this.#form = form;
  }

  take(event: ChoiceEvent, told: readonly AnswerEvent[]): void {
    const made = (this.#made[event.choice] ??= { events: [], sum: 0, tokens: 0 });
    made.events.push(...told);
    if (event.type !== 'text') return;
    for (const { logprob } of event.logprobs ?? []) made.sum += logprob;
    made.tokens += event.logprobs?.length ?? 0;
  }

  /** The events of the selected answers, in the order of the prompts. */
  events(): AnswerEvent[] {
    const { jobs, made, given } = this.#form;
    return jobs.flatMap((_, prompt) =>
      this.#made
        .slice(prompt * made, (prompt + 1) * made)
        .sort((a, b) => mean(b) - mean(a))
        .slice(0, given)
        .flatMap(({ events }, k) => events.map((event) => ({ ...event, choice: prompt * given + k }))),
    );
  }
}

/** An answer without tokens ranks first. */
const mean = ({ sum, tokens }: Made): number => (tokens === 0 ? 0 : sum / tokens);
