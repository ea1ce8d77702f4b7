import type { Tokenizer, TokenLogprob } from '../../engine/index.ts';
import type { ChoiceEvent } from '../turn/choices.ts';
import type { CompletionJob } from './completions-input.ts';
import type { Completion, CompletionChunk } from './completions-schema.ts';
import { countOf, TextLogprobWriter, type TextLogprobs } from './logprobs.ts';

type Choice = Completion['choices'][number];
type ChunkChoice = CompletionChunk['choices'][number];

/** Answers to several prompts, `made` to each, and how they are told. */
export interface CompletionForm {
  readonly jobs: readonly CompletionJob[];
  readonly made: number;
  readonly tokenizer: Tokenizer;
  /** Whether log probabilities are told. */
  readonly logprobs: boolean;
}

/** One answer as the pieces that the wire writes: the echo first, then text with the tokens it was made of. */
class Telling {
  readonly #job: CompletionJob;
  readonly #form: CompletionForm;
  readonly #writer: TextLogprobWriter;
  #begun = false;
  /** Characters of the text so far. */
  #written = 0;
  #waiting: TextLogprobs = joined([]);

  constructor(form: CompletionForm, choice: number) {
    this.#form = form;
    this.#job = form.jobs[Math.floor(choice / form.made)] as CompletionJob;
    this.#writer = new TextLogprobWriter(form.tokenizer);
  }

  /** What an event adds to the answer; undefined where it adds nothing. */
  piece(event: ChoiceEvent): { text: string; logprobs: TextLogprobs | null } | undefined {
    const given = event.type === 'text' ? event : undefined;
    const text = (this.#begun ? '' : this.#job.echo) + (given?.text ?? '');
    const prompt = this.#begun ? undefined : given?.prompt;
    this.#begun = true;
    this.#written += countOf(text);
    const parts = [this.#waiting];
    if (this.#form.logprobs && prompt) parts.push(this.#promptLogprobs(prompt));
    if (this.#form.logprobs && given?.logprobs) parts.push(this.#writer.write(given.ids, given.logprobs));
    const logprobs = this.#certain(joined(parts), event);
    if (text === '' && logprobs.tokens.length === 0) return undefined;
    return { text, logprobs: logprobs.tokens.length > 0 ? logprobs : null };
  }

  /** Tokens whose text is held back wait with it; those of a stop text, which is no part of the answer, are left out. */
  #certain(all: TextLogprobs, event: ChoiceEvent): TextLogprobs {
    const first = all.text_offset.findIndex((offset) => offset >= this.#written);
    const whole = event.type === 'end' && event.stopText === undefined;
    if (whole || first === -1) {
      this.#waiting = joined([]);
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

function joined(parts: readonly TextLogprobs[]): TextLogprobs {
  return {
    tokens: parts.flatMap(({ tokens }) => tokens),
    token_logprobs: parts.flatMap(({ token_logprobs }) => token_logprobs),
    top_logprobs: parts.flatMap(({ top_logprobs }) => top_logprobs),
    text_offset: parts.flatMap(({ text_offset }) => text_offset),
  };
}

/** The choices of the chunks that an event becomes. */
export function toChunkChoices(form: CompletionForm): (event: ChoiceEvent) => Iterable<ChunkChoice> {
  const tellings = new Map<number, Telling>();
  return function* (event) {
    const index = event.choice;
    if (event.type === 'prompt') {
      yield { index, text: '', logprobs: null, finish_reason: null };
      return;
    }
    const telling = tellings.get(index) ?? new Telling(form, index);
    tellings.set(index, telling);
    const piece = telling.piece(event);
    if (piece) yield { index, ...piece, finish_reason: null };
    if (event.type !== 'end') return;
    tellings.delete(index);
    yield { index, text: '', logprobs: null, finish_reason: event.finishReason };
  };
}

/** What an answer was made of, until all of it is there. */
interface Made {
  readonly telling: Telling;
  readonly texts: string[];
  readonly logprobs: TextLogprobs[];
  sum: number;
  tokens: number;
  finishReason: Choice['finish_reason'];
}

/** Reads all answers to their end; of those to each prompt it gives the `n` likeliest, in the prompts' order. */
export class CompletionCollector {
  readonly #form: CompletionForm;
  readonly #made: Made[] = [];

  constructor(form: CompletionForm) {
    this.#form = form;
  }

  take(event: ChoiceEvent): void {
    if (event.type === 'prompt') return;
    const made = (this.#made[event.choice] ??= {
      telling: new Telling(this.#form, event.choice),
      texts: [],
      logprobs: [],
      sum: 0,
      tokens: 0,
      finishReason: 'length',
    });
    const piece = made.telling.piece(event);
    if (piece) made.texts.push(piece.text);
    if (piece?.logprobs) made.logprobs.push(piece.logprobs);
    if (event.type === 'end') {
      made.finishReason = event.finishReason;
      return;
    }
    for (const { logprob } of event.logprobs ?? []) made.sum += logprob;
    made.tokens += event.logprobs?.length ?? 0;
  }

  choices(n: number): Choice[] {
    const { jobs, made } = this.#form;
    return jobs.flatMap((_, prompt) => {
      const answers = this.#made.slice(prompt * made, (prompt + 1) * made);
      if (made > n) answers.sort((a, b) => mean(b) - mean(a));
      return answers.slice(0, n).map((answer, k) => ({
        index: prompt * n + k,
        text: answer.texts.join(''),
        logprobs: this.#form.logprobs ? joined(answer.logprobs) : null,
        finish_reason: answer.finishReason,
      }));
    });
  }
}

/** Of an answer without tokens: as sure as can be. */
const mean = ({ sum, tokens }: Made): number => (tokens === 0 ? 0 : sum / tokens);
