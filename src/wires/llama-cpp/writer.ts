import type { HttpError } from '../../http/error.ts';
import { writeProgress, toProbabilities } from '../chat/resident-answer-options.ts';
import { sseFrame } from '../chat/writer.ts';
import type { AnswerEvent, Timings } from '../core/answer.ts';
import type { StreamWriter } from '../core/wire.ts';
import type { CompletionAnswer, CompletionPart } from './answer-schema.ts';
import { llamaEnvelope } from './error.ts';
import type { CompletionOptions } from './request-schema.ts';

type Part = Extract<AnswerEvent, { type: 'text' }>;
type End = Extract<AnswerEvent, { type: 'finish' }>;

/** Metadata of the answers to a request. */
export interface LlamaCppAnswerMetadata {
  readonly model: string;
  readonly body: CompletionOptions;
  /** Whether the answer is an array. */
  readonly isArray: boolean;
  /** Returns the members of an answer that repeat its request. */
  readonly requestMembers: (choice: number) => Pick<CompletionAnswer, 'prompt' | 'generation_settings'>;
}

export const llamaCppWire = {
  body(events: readonly AnswerEvent[], metadata: LlamaCppAnswerMetadata): object {
    const parts: Part[][] = [];
    const answers: object[] = [];
    for (const event of events) {
      const { choice = 0 } = event;
      if (event.type === 'text') (parts[choice] ??= []).push(event);
      if (event.type === 'finish') answers[choice] = writeFinal(event, metadata, parts[choice]);
    }
    return metadata.isArray || answers.length > 1 ? answers : (answers[0] as object);
  },
  writer: (metadata: LlamaCppAnswerMetadata): StreamWriter => new EventWriter(metadata),
};

const jsonFrame = (value: object): string => sseFrame(JSON.stringify(value));

/** Writes answers as server-sent events, without `[DONE]`. */
class EventWriter implements StreamWriter {
  readonly #metadata: LlamaCppAnswerMetadata;
  /** Answers that contain a line break. */
  readonly #withLineBreak = new Set<number>();

  constructor(metadata: LlamaCppAnswerMetadata) {
    this.#metadata = metadata;
  }

  write(event: AnswerEvent): string {
    const { choice = 0 } = event;
    switch (event.type) {
      case 'progress':
        if (!this.#metadata.body.return_progress) return '';
        return jsonFrame({ ...this.#writePart(event), prompt_progress: writeProgress(event) });
      case 'text': {
        const { text, ids = [] } = event;
        if (text.includes('\n')) this.#withLineBreak.add(choice);
        if (text === '' && ids.length === 0) return '';
        return jsonFrame({
          ...this.#writePart(event, text, ids),
          ...writeProbabilities([event], this.#metadata),
        });
      }
      case 'finish':
        // The content was already sent.
        return jsonFrame(writeFinal(event, this.#metadata, [], this.#withLineBreak.has(choice)));
      default:
        return '';
    }
  }

  #writePart(event: AnswerEvent, content = '', tokens: readonly number[] = []): CompletionPart {
    const timings = requireTimings(event);
    return {
      index: event.choice ?? 0,
      content,
      tokens: [...tokens],
      id_slot: -1,
      stop: false,
      tokens_predicted: timings.predicted_n,
      tokens_evaluated: timings.cache_n + timings.prompt_n,
      ...(this.#metadata.body.timings_per_token ? { timings: timings } : {}),
    };
  }

  end(): string {
    return '';
  }

  fail(error: HttpError): string {
    return jsonFrame(llamaEnvelope(error) as object);
  }
}

/** The last object of a streamed answer, or a complete answer. */
function writeFinal(
  end: End,
  metadata: LlamaCppAnswerMetadata,
  parts: readonly Part[] = [],
  hasNewLine = parts.some(({ text }) => text.includes('\n')),
): object {
  const { choice = 0, reason, detail, stopText } = end;
  const { model, body, requestMembers } = metadata;
  const timings = requireTimings(end);
  const answer: CompletionAnswer = {
    index: choice,
    content: parts.map(({ text }) => text).join(''),
    tokens: body.return_tokens ? parts.flatMap(({ ids = [] }) => ids) : [],
    id_slot: -1,
    stop: true,
    model,
    tokens_predicted: timings.predicted_n,
    tokens_evaluated: timings.cache_n + timings.prompt_n,
    ...requestMembers(choice),
    has_new_line: hasNewLine,
    truncated: detail === contextFullDetail,
    stop_type: reason === 'length' ? 'limit' : stopText === undefined ? 'eos' : 'word',
    stopping_word: stopText ?? '',
    tokens_cached: timings.cache_n,
    timings: timings,
    ...writeProbabilities(parts, metadata),
  };
  const fields = body.response_fields ?? [];
  return fields.length === 0 ? answer : pickFields(answer, fields);
}

/** The `detail` of a `finish` event where the context ended the answer before the request's own limit. */
export const contextFullDetail = 'model_context_window_exceeded';

function requireTimings({ timings }: AnswerEvent): Timings {
  if (!timings) throw new Error('the engine answered without timings');
  return timings;
}

function writeProbabilities(parts: readonly Part[], { body }: LlamaCppAnswerMetadata): object {
  const entries = parts.flatMap(({ logprobs = [] }) => logprobs);
  if (entries.length === 0) return {};
  return { completion_probabilities: body.post_sampling_probs ? entries.map(toProbabilities) : entries };
}

/** Picks the named members; nested members keep their full name as key. Unknown names are ignored. */
function pickFields(answer: CompletionAnswer, fields: readonly string[]): object {
  const entries: [string, unknown][] = [];
  for (const field of fields) {
    let value: unknown = answer;
    for (const name of field.split('/', 8)) {
      const exists = typeof value === 'object' && value !== null && Object.hasOwn(value, name);
      value = exists ? (value as Readonly<Record<string, unknown>>)[name] : undefined;
    }
    if (value !== undefined) entries.push([field, value]);
  }
  return Object.fromEntries(entries);
}
