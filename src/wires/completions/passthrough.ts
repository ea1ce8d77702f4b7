import { isRecord } from '../../util/json.ts';
import type { HttpError } from '../../http/error.ts';
import type { AnswerEvent } from '../core/answer.ts';
import { classifyFailure } from '../chat/failure.ts';
import { parseFrame } from '../chat/reader.ts';
import { setDefault, repairHead } from '../chat/repair.ts';
import { commonEdits } from '../chat/passthrough-request.ts';
import { parseCompletion } from '../chat/upstream.ts';
import { errorFrame, sseFrame, doneFrame } from '../chat/writer.ts';
import { createEditedBody } from '../core/json-edit.ts';
import type { AnswerMetadata, SseFrame, StreamTranslation, Translation } from '../core/wire.ts';
import { returnedAnswers, CompletionReader } from './reader.ts';

type MutableJson = Record<string, unknown>;
interface PassedFrame {
  readonly text: string;
  readonly events: AnswerEvent[];
}

/** Translation where both sides speak text completions: everything passes unchanged except for required edits. */
export const completionsPassthrough: Translation = {
  request(request, options) {
    const { body } = request;
    const { maxTokens } = options;
    const limit = body['max_tokens'] === maxTokens ? {} : { max_tokens: maxTokens };
    return createEditedBody('/completions', request, { ...commonEdits(body, options), ...limit });
  },
  answer(text, metadata) {
    const body = parseCompletion(text) as MutableJson;
    const reader = new CompletionReader(returnedAnswers(metadata));
    const events = [...reader.read(body), ...reader.read('done')];
    const isRepaired = repairBody(body, metadata, true);
    return { text: isRepaired ? JSON.stringify(body) : text, events };
  },
  stream: (metadata) => new PassthroughStream(metadata),
  failure: classifyFailure,
};

function repairBody(body: MutableJson, metadata: AnswerMetadata, isComplete: boolean): boolean {
  let changed = repairHead(body, 'text_completion', metadata);
  changed = setDefault(body, 'choices', []) || changed;
  (body['choices'] as unknown[]).forEach((choice, index) => {
    if (!isRecord(choice)) return;
    const open = choice as MutableJson;
    changed = setDefault(open, 'text', '') || changed;
    changed = setDefault(open, 'index', index) || changed;
    changed = setDefault(open, 'logprobs', null) || changed;
    changed = setDefault(open, 'finish_reason', isComplete ? 'stop' : null) || changed;
  });
  return changed;
}

class PassthroughStream implements StreamTranslation {
  readonly #metadata: AnswerMetadata;
  readonly #reader: CompletionReader;
  readonly #includeUsage: boolean;
  /** The frame with the usage, which is sent last. */
  #usageFrame = '';

  constructor(metadata: AnswerMetadata) {
    this.#metadata = metadata;
    this.#reader = new CompletionReader(returnedAnswers(metadata));
    this.#includeUsage = metadata.request.facts.includeUsage;
  }

  push(frame: SseFrame): PassedFrame {
    if (this.#reader.isDone) return { text: '', events: [] };
    const content = parseFrame(frame);
    const events = this.#reader.read(content, frame.event);
    const isFailed = events.some(({ type }) => type === 'failure');
    return { text: typeof content === 'string' || isFailed ? '' : this.#pass(frame, content), events };
  }

  #pass({ raw }: SseFrame, chunk: MutableJson): string {
    const changed = repairBody(chunk, this.#metadata, false);
    const { usage } = chunk;
    if (!isRecord(usage)) return changed ? sseFrame(JSON.stringify(chunk)) : raw;
    const hasOnlyUsage = (chunk['choices'] as unknown[]).length === 0;
    const frame = hasOnlyUsage && !changed ? raw : sseFrame(JSON.stringify({ ...chunk, choices: [], usage }));
    if (this.#includeUsage) this.#usageFrame = frame;
    if (hasOnlyUsage) return '';
    if (this.#includeUsage) chunk['usage'] = null;
    else delete chunk['usage'];
    return sseFrame(JSON.stringify(chunk));
  }

  finish(): PassedFrame {
    return { text: '', events: this.#reader.end() };
  }

  end(): string {
    return this.#usageFrame + doneFrame;
  }

  fail(error: HttpError): string {
    return errorFrame(error);
  }
}
