import type { HttpError } from '../../http/error.ts';
import { progressOf, toProbabilities } from '../chat/resident-form.ts';
import { frameOf } from '../chat/writer.ts';
import type { AnswerEvent, Timings } from '../core/answer.ts';
import type { StreamWriter } from '../core/wire.ts';
import type { CompletionAnswer, CompletionPart } from './answer-schema.ts';
import { llamaEnvelope } from './error.ts';
import type { CompletionOptions } from './request-schema.ts';

type Part = Extract<AnswerEvent, { type: 'text' }>;
type End = Extract<AnswerEvent, { type: 'finish' }>;

/** Metadata of the answers to a request. */
export interface LlamaCppAbout {
  readonly model: string;
  readonly body: CompletionOptions;
  /** Whether the answer is an array. */
  readonly several: boolean;
  /** Returns the members of an answer that repeat its request. */
  readonly asked: (choice: number) => Pick<CompletionAnswer, 'prompt' | 'generation_settings'>;
}

export const llamaCppWire = {
  body(events: readonly AnswerEvent[], about: LlamaCppAbout): object {
    const parts: Part[][] = [];
    const answers: object[] = [];
    for (const event of events) {
      const { choice = 0 } = event;
      if (event.type === 'text') (parts[choice] ??= []).push(event);
      if (event.type === 'finish') answers[choice] = lastOf(event, about, parts[choice]);
    }
    return about.several || answers.length > 1 ? answers : (answers[0] as object);
  },
  writer: (about: LlamaCppAbout): StreamWriter => new EventWriter(about),
};

const frame = (value: object): string => frameOf(JSON.stringify(value));

/** Writes answers as server-sent events, without `[DONE]`. */
class EventWriter implements StreamWriter {
  readonly #about: LlamaCppAbout;
  /** Answers that contain a line break. */
  readonly #broken = new Set<number>();

  constructor(about: LlamaCppAbout) {
    this.#about = about;
  }

  write(event: AnswerEvent): string {
    const { choice = 0 } = event;
    switch (event.type) {
      case 'progress':
        if (!this.#about.body.return_progress) return '';
        return frame({ ...this.#part(event), prompt_progress: progressOf(event) });
      case 'text': {
        const { text, ids = [] } = event;
        if (text.includes('\n')) this.#broken.add(choice);
        if (text === '' && ids.length === 0) return '';
        return frame({ ...this.#part(event, text, ids), ...probabilitiesOf([event], this.#about) });
      }
      case 'finish':
        // The content was already sent.
        return frame(lastOf(event, this.#about, [], this.#broken.has(choice)));
      default:
        return '';
    }
  }

  #part(event: AnswerEvent, content = '', tokens: readonly number[] = []): CompletionPart {
    const took = timingsOf(event);
    return {
      index: event.choice ?? 0,
      content,
      tokens: [...tokens],
      id_slot: -1,
      stop: false,
      tokens_predicted: took.predicted_n,
      tokens_evaluated: took.cache_n + took.prompt_n,
      ...(this.#about.body.timings_per_token ? { timings: took } : {}),
    };
  }

  end(): string {
    return '';
  }

  fail(error: HttpError): string {
    return frame(llamaEnvelope(error) as object);
  }
}

/** The last object of a streamed answer, or a complete answer. */
function lastOf(
  end: End,
  about: LlamaCppAbout,
  parts: readonly Part[] = [],
  hasNewLine = parts.some(({ text }) => text.includes('\n')),
): object {
  const { choice = 0, reason, detail, stopText } = end;
  const { model, body, asked } = about;
  const took = timingsOf(end);
  const answer: CompletionAnswer = {
    index: choice,
    content: parts.map(({ text }) => text).join(''),
    tokens: body.return_tokens ? parts.flatMap(({ ids = [] }) => ids) : [],
    id_slot: -1,
    stop: true,
    model,
    tokens_predicted: took.predicted_n,
    tokens_evaluated: took.cache_n + took.prompt_n,
    ...asked(choice),
    has_new_line: hasNewLine,
    truncated: detail === contextFull,
    stop_type: reason === 'length' ? 'limit' : stopText === undefined ? 'eos' : 'word',
    stopping_word: stopText ?? '',
    tokens_cached: took.cache_n,
    timings: took,
    ...probabilitiesOf(parts, about),
  };
  const fields = body.response_fields ?? [];
  return fields.length === 0 ? answer : picked(answer, fields);
}

/** The `detail` of a `finish` event where the context ended the answer before the request's own limit. */
export const contextFull = 'model_context_window_exceeded';

function timingsOf({ timings }: AnswerEvent): Timings {
  if (!timings) throw new Error('the engine answered without timings');
  return timings;
}

function probabilitiesOf(parts: readonly Part[], { body }: LlamaCppAbout): object {
  const entries = parts.flatMap(({ logprobs = [] }) => logprobs);
  if (entries.length === 0) return {};
  return { completion_probabilities: body.post_sampling_probs ? entries.map(toProbabilities) : entries };
}

/** Picks the named members; nested members keep their full name as key. Unknown names are ignored. */
function picked(answer: CompletionAnswer, fields: readonly string[]): object {
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
