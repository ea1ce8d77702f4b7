import type { Engine } from '../../engine/index.ts';
import type { CompletionAnswer, CompletionPart } from './answer-schema.ts';
import { toProbabilities } from './probabilities.ts';
import type { CompletionOptions } from './request-schema.ts';
import type { Job, RunEvent } from './run.ts';
import { type GenerationSettings, toSettings } from './settings.ts';

type Prompt = Extract<RunEvent, { type: 'prompt' }>;
type Part = Extract<RunEvent, { type: 'text' }>;
type End = Extract<RunEvent, { type: 'end' }>;

/** Writes one answer's objects and keeps what its last one needs. */
export class AnswerWriter {
  readonly #index: number;
  readonly #job: Job;
  readonly #body: CompletionOptions;
  readonly #engine: Engine;
  readonly #texts: string[] = [];
  readonly #tokens: number[] = [];
  readonly #logprobs: Part['logprobs'][number][] = [];
  #hasNewLine = false;

  constructor(index: number, job: Job, body: CompletionOptions, engine: Engine) {
    this.#index = index;
    this.#job = job;
    this.#body = body;
    this.#engine = engine;
  }

  /** For an answer that is sent as a whole. */
  keep({ text, ids, logprobs }: Part): void {
    this.#texts.push(text);
    for (const id of ids) this.#tokens.push(id);
    this.#logprobs.push(...logprobs);
    this.#hasNewLine ||= text.includes('\n');
  }

  /** For an answer that is streamed. */
  *parts(event: Prompt | Part): Generator<CompletionPart, void, undefined> {
    const timings = this.#body.timings_per_token ? { timings: event.timings } : {};
    const head = {
      index: this.#index,
      id_slot: -1,
      stop: false,
      tokens_predicted: event.timings.predicted_n,
      tokens_evaluated: this.#job.request.prompt.length,
    } as const;
    if (event.type === 'prompt') {
      if (!this.#body.return_progress) return;
      yield { ...head, content: '', tokens: [], ...timings, prompt_progress: event.progress };
      return;
    }
    const { text, ids, logprobs } = event;
    this.#hasNewLine ||= text.includes('\n');
    if (text === '' && ids.length === 0) return;
    const probabilities =
      logprobs.length > 0 ? { completion_probabilities: this.#probabilities(logprobs) } : {};
    yield { ...head, content: text, tokens: [...ids], ...timings, ...probabilities };
  }

  /** The last object; of a stream it has no content. */
  last(end: End): Partial<CompletionAnswer> {
    const { tokenizer, model } = this.#engine;
    const { request } = this.#job;
    const { stream, return_tokens } = this.#body;
    const answer: CompletionAnswer = {
      index: this.#index,
      content: this.#texts.join(''),
      tokens: stream || !return_tokens ? [] : this.#tokens,
      id_slot: -1,
      stop: true,
      model: model.id,
      tokens_predicted: end.usage.completion_tokens,
      tokens_evaluated: request.prompt.length,
      generation_settings: this.#settings(),
      prompt: tokenizer.decode(request.prompt, { special: true }),
      has_new_line: this.#hasNewLine,
      truncated: end.truncated,
      stop_type: end.finishReason === 'length' ? 'limit' : end.stopText === undefined ? 'eos' : 'word',
      stopping_word: end.stopText ?? '',
      tokens_cached: end.usage.cached_tokens,
      timings: end.told,
      ...(this.#logprobs.length > 0 ? { completion_probabilities: this.#probabilities(this.#logprobs) } : {}),
    };
    const fields = this.#body.response_fields ?? [];
    return fields.length === 0 ? answer : picked(answer, fields);
  }

  #probabilities(logprobs: Part['logprobs']) {
    return toProbabilities(this.#engine.tokenizer, logprobs, this.#body.post_sampling_probs ?? false);
  }

  #settings(): GenerationSettings {
    const { sampling, stop } = this.#job.request;
    return toSettings(this.#body, { sampling, stop, engine: this.#engine });
  }
}

/** The named members only; one below another keeps its whole name. Names that mean nothing are left out. */
function picked(answer: CompletionAnswer, fields: readonly string[]): Partial<CompletionAnswer> {
  const found: [string, unknown][] = [];
  for (const field of fields) {
    let value: unknown = answer;
    for (const name of field.split('/', 8)) {
      const isThere = typeof value === 'object' && value !== null && Object.hasOwn(value, name);
      value = isThere ? (value as Readonly<Record<string, unknown>>)[name] : undefined;
    }
    if (value !== undefined) found.push([field, value]);
  }
  return Object.fromEntries(found);
}
