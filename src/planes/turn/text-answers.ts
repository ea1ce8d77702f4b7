import type { Tokenizer, TokenLogprob } from '../../engine/index.ts';
import type { Work } from '../../watch/index.ts';
import { type AnswerEvent, joinedLogprobs, type TextLogprobs } from '../../wires/core/answer.ts';
import type { AnswerBatches } from '../../wires/core/backend.ts';
import type { ChoiceEvent, TextRequest } from './choices.ts';
import { countOf, TextLogprobWriter } from './logprobs.ts';
import { toSharedTimings, toTimings } from './timings.ts';
import { toUsage } from './usage.ts';
import { Watcher } from './watched.ts';

/** A prompt, and the text that `echo` puts before its answers. */
export interface TextJob {
  readonly request: TextRequest;
  readonly echo: string;
}

/** Answers to several prompts, and how they are told. */
export interface TextForm {
  readonly jobs: readonly TextJob[];
  /** Answers that are made to each prompt. */
  readonly made: number;
  /** The likeliest of them, that are told. */
  readonly given: number;
  readonly tokenizer: Tokenizer;
  /** Whether log probabilities are told. */
  readonly logprobs: boolean;
  readonly work?: Work<'completion'> | undefined;
}

/** One answer as the pieces that are told: the echo first, then text with the tokens it was made of. */
class Telling {
  readonly #job: TextJob;
  readonly #form: TextForm;
  readonly #writer: TextLogprobWriter;
  #begun = false;
  /** Characters of the text so far. */
  #written = 0;
  #waiting: TextLogprobs = joinedLogprobs([]);

  constructor(form: TextForm, choice: number) {
    this.#form = form;
    this.#job = form.jobs[Math.floor(choice / form.made)] as TextJob;
    this.#writer = new TextLogprobWriter(form.tokenizer);
  }

  /** What an event adds to the answer; undefined where it adds nothing. */
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

  /** Tokens whose text is held back wait with it; those of a stop text, which is no part of the answer, are left out. */
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
    // BOS is part of the echoed text only where it was written there.
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

/** The answers to texts, as they are made; where more are made than given, those when all are there. */
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

/** What an answer was made of, until all of them are there. */
interface Made {
  readonly events: AnswerEvent[];
  sum: number;
  tokens: number;
}

/** The likeliest of the answers made for each prompt. */
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

  /** Those that are given, in the prompts' order. */
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

/** An answer without tokens is as sure as can be. */
const mean = ({ sum, tokens }: Made): number => (tokens === 0 ? 0 : sum / tokens);
