import type { GenerationEvent, Tokenizer, TokenLogprob } from '../../engine/index.ts';
import type { ChoiceEvent } from '../turn/choices.ts';
import type { CompletionJob } from './completions-input.ts';
import type { Completion, CompletionChunk } from './completions-schema.ts';
import { TextLogprobWriter, type TextLogprobs } from './logprobs.ts';

type TextEvent = Extract<GenerationEvent, { type: 'text' }>;
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

  constructor(form: CompletionForm, choice: number) {
    this.#form = form;
    this.#job = form.jobs[Math.floor(choice / form.made)] as CompletionJob;
    this.#writer = new TextLogprobWriter(form.tokenizer);
  }

  /** @param event absent where an answer ends without a text */
  piece(event?: TextEvent): { text: string; logprobs: TextLogprobs | null } | undefined {
    const echo = this.#begun ? '' : this.#job.echo;
    const prompt = this.#begun ? undefined : event?.prompt;
    this.#begun = true;
    const text = echo + (event?.text ?? '');
    const parts: TextLogprobs[] = [];
    if (this.#form.logprobs && prompt) parts.push(this.#promptLogprobs(prompt));
    if (this.#form.logprobs && event?.logprobs) parts.push(this.#writer.write(event.ids, event.logprobs));
    const logprobs = parts.length > 0 ? joined(parts) : null;
    return text === '' && (logprobs?.tokens.length ?? 0) === 0 ? undefined : { text, logprobs };
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

const joined = (parts: readonly TextLogprobs[]): TextLogprobs => ({
  tokens: parts.flatMap(({ tokens }) => tokens),
  token_logprobs: parts.flatMap(({ token_logprobs }) => token_logprobs),
  top_logprobs: parts.flatMap(({ top_logprobs }) => top_logprobs),
  text_offset: parts.flatMap(({ text_offset }) => text_offset),
});

/** The choices of the chunks that an event becomes. */
export function toChunkChoices(form: CompletionForm): (event: ChoiceEvent) => Iterable<ChunkChoice> {
  const tellings = new Map<number, Telling>();
  return function* (event) {
    const index = event.choice;
    const telling = tellings.get(index) ?? new Telling(form, index);
    tellings.set(index, telling);
    const piece = telling.piece(event.type === 'text' ? event : undefined);
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
    const made = (this.#made[event.choice] ??= {
      telling: new Telling(this.#form, event.choice),
      texts: [],
      logprobs: [],
      sum: 0,
      tokens: 0,
      finishReason: 'length',
    });
    const piece = made.telling.piece(event.type === 'text' ? event : undefined);
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
