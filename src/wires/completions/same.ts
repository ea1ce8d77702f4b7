import { isRecord } from '../../util/json.ts';
import type { HttpError } from '../../http/error.ts';
import type { AnswerEvent } from '../core/answer.ts';
import { failureOf } from '../chat/failure.ts';
import { heldIn } from '../chat/reader.ts';
import { fill, repairHead } from '../chat/repair.ts';
import { commonEdits } from '../chat/same-request.ts';
import { completionIn } from '../chat/upstream.ts';
import { errorFrame, frameOf, lastFrame } from '../chat/writer.ts';
import { editedBody } from '../core/json-edit.ts';
import type { AnswerAbout, SseFrame, StreamTranslation, Translation } from '../core/wire.ts';
import { answersOf, CompletionReader } from './reader.ts';

type Open = Record<string, unknown>;
interface Passed {
  readonly text: string;
  readonly events: AnswerEvent[];
}

/** Translation where both sides speak text completions: everything passes unchanged except for required edits. */
export const completionsSame: Translation = {
  request(request, options) {
    const { body } = request;
    const { maxTokens } = options;
    const limit = body['max_tokens'] === maxTokens ? {} : { max_tokens: maxTokens };
    return editedBody('/completions', request, { ...commonEdits(body, options), ...limit });
  },
  answer(text, about) {
    const body = completionIn(text) as Open;
    const reader = new CompletionReader(answersOf(about));
    const events = [...reader.read(body), ...reader.read('done')];
    const isRepaired = repaired(body, about, true);
    return { text: isRepaired ? JSON.stringify(body) : text, events };
  },
  stream: (about) => new SameStream(about),
  failure: failureOf,
};

function repaired(body: Open, about: AnswerAbout, isWhole: boolean): boolean {
  let changed = repairHead(body, 'text_completion', about);
  changed = fill(body, 'choices', []) || changed;
  (body['choices'] as unknown[]).forEach((choice, place) => {
    if (!isRecord(choice)) return;
    const open = choice as Open;
    changed = fill(open, 'text', '') || changed;
    changed = fill(open, 'index', place) || changed;
    changed = fill(open, 'logprobs', null) || changed;
    changed = fill(open, 'finish_reason', isWhole ? 'stop' : null) || changed;
  });
  return changed;
}

class SameStream implements StreamTranslation {
  readonly #about: AnswerAbout;
  readonly #reader: CompletionReader;
  readonly #includeUsage: boolean;
  /** The frame with the usage, which is sent last. */
  #usage = '';

  constructor(about: AnswerAbout) {
    this.#about = about;
    this.#reader = new CompletionReader(answersOf(about));
    this.#includeUsage = about.request.facts.includeUsage;
  }

  push(frame: SseFrame): Passed {
    if (this.#reader.isDone) return { text: '', events: [] };
    const held = heldIn(frame);
    const events = this.#reader.read(held, frame.event);
    const isFailed = events.some(({ type }) => type === 'failure');
    return { text: typeof held === 'string' || isFailed ? '' : this.#passed(frame, held), events };
  }

  #passed({ raw }: SseFrame, chunk: Open): string {
    const changed = repaired(chunk, this.#about, false);
    const { usage } = chunk;
    if (!isRecord(usage)) return changed ? frameOf(JSON.stringify(chunk)) : raw;
    const isAlone = (chunk['choices'] as unknown[]).length === 0;
    const whole = isAlone && !changed ? raw : frameOf(JSON.stringify({ ...chunk, choices: [], usage }));
    if (this.#includeUsage) this.#usage = whole;
    if (isAlone) return '';
    if (this.#includeUsage) chunk['usage'] = null;
    else delete chunk['usage'];
    return frameOf(JSON.stringify(chunk));
  }

  finish(): Passed {
    return { text: '', events: this.#reader.end() };
  }

  end(): string {
    return this.#usage + lastFrame;
  }

  fail(error: HttpError): string {
    return errorFrame(error);
  }
}
