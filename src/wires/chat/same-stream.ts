import { isRecord } from '../../util/json.ts';
import type { HttpError } from '../../http/error.ts';
import type { AnswerEvent } from '../core/answer.ts';
import type { AnswerAbout, SseFrame, StreamTranslation } from '../core/wire.ts';
import { ChunkReader, type Held, heldIn } from './reader.ts';
import { repairChoice, repairHead } from './repair.ts';
import { errorFrame, frameOf, lastFrame } from './writer.ts';

type Open = Record<string, unknown>;
interface Passed {
  readonly text: string;
  readonly events: AnswerEvent[];
}

/** OpenAI writes this into every chunk, although its schema does not allow null. */
const nullFingerprint = '"system_fingerprint":null,';

/**
 * The JSON around the text of a chunk that contains nothing else of interest; the next chunk usually has the same.
 */
interface Around {
  readonly before: string;
  readonly after: string;
}

const contentStarts = '"content":"';
/** Characters that end or escape a JSON string. */
const special = /["\\\p{Cc}]/u;

/** Splits the JSON of a chunk around its text. @param content the text that was read from the chunk */
function around(data: string, content: string): Around | undefined {
  const start = data.indexOf(contentStarts) + contentStarts.length;
  const end = start + content.length;
  if (start < contentStarts.length || special.test(content)) return undefined;
  if (data.slice(start, end) !== content || data[end] !== '"') return undefined;
  return { before: data.slice(0, start), after: data.slice(end) };
}

/**
 * The text of a chunk that differs from the last one only in its text; undefined where other parts may differ.
 */
function textWithin(data: string, { before, after }: Around): string | undefined {
  if (data.length < before.length + after.length || !data.startsWith(before) || !data.endsWith(after))
    return undefined;
  const text = data.slice(before.length, data.length - after.length);
  return text === '' || special.test(text) ? undefined : text;
}

/** Passes chunks through unchanged, except for misplaced usage and missing members. */
export class SameStream implements StreamTranslation {
  readonly #about: AnswerAbout;
  readonly #reader: ChunkReader;
  readonly #includeUsage: boolean;
  /** Answers whose first chunk has arrived. */
  readonly #begun = new Set<number>();
  /**
   * The JSON around the last chunk's text, where the chunk passed unchanged and contained only text; saves parsing the
   * next chunk.
   */
  #plain: Around | undefined;
  /** The frame with the usage, which is sent last. */
  #usage = '';

  constructor(about: AnswerAbout) {
    this.#about = about;
    this.#includeUsage = about.request.facts.includeUsage;
    this.#reader = new ChunkReader(about.request.facts.answers);
  }

  push(frame: SseFrame): Passed {
    if (this.#reader.isDone) return { text: '', events: [] };
    if (this.#plain && frame.event === undefined) {
      const text = textWithin(frame.data, this.#plain);
      if (text !== undefined) return { text: frame.raw, events: [{ type: 'text', text }] };
    }
    const held = heldIn(frame);
    const events = this.#reader.read(held, frame.event);
    const isFailed = events.some(({ type }) => type === 'failure');
    const text = typeof held === 'string' || isFailed ? '' : this.#passed(frame, held);
    const [only] = events;
    this.#plain =
      events.length === 1 && only?.type === 'text' && !only.logprobs && text === frame.raw && isAlone(held)
        ? around(frame.data, only.text)
        : undefined;
    return { text, events };
  }

  #passed(frame: SseFrame, chunk: Open): string {
    let { data } = frame;
    let isEdited = false;
    if (chunk['system_fingerprint'] === null && data.includes(nullFingerprint)) {
      data = data.replace(nullFingerprint, '');
      // Cheaper than `delete`, and serialized the same.
      chunk['system_fingerprint'] = undefined;
      isEdited = true;
    }
    let changed = repairHead(chunk, 'chat.completion.chunk', this.#about);
    const usage = this.#usageOf(chunk);
    if (!Array.isArray(chunk['choices'])) {
      chunk['choices'] = [];
      changed = true;
    }
    const choices = chunk['choices'] as unknown[];
    for (let place = 0; place < choices.length; place++) {
      const choice = choices[place];
      if (isRecord(choice)) changed = this.#repaired(choice, place) || changed;
    }
    if (usage) {
      if (choices.length === 0) {
        // A chunk with only usage is correct; it is sent after all others.
        this.#hold(changed ? frameOf(JSON.stringify(chunk)) : isEdited ? frameOf(data) : rawOf(frame));
        return '';
      }
      this.#hold(frameOf(JSON.stringify({ ...chunk, choices: [], usage })));
      if (this.#includeUsage) chunk['usage'] = null;
      else delete chunk['usage'];
      changed = true;
    } else if (this.#includeUsage && chunk['usage'] === undefined) {
      // With `include_usage` all chunks have the member.
      chunk['usage'] = null;
      data = `${data.trimEnd().slice(0, -1)},"usage":null}`;
      isEdited = true;
    }
    if (changed) return frameOf(JSON.stringify(chunk));
    return isEdited ? frameOf(data) : rawOf(frame);
  }

  #repaired(choice: Open, place: number): boolean {
    const index = typeof choice['index'] === 'number' ? choice['index'] : place;
    const isFirst = !this.#begun.has(index);
    if (isFirst) this.#begun.add(index);
    return repairChoice(choice, place, isFirst, this.#reader.choice(index));
  }

  /** The usage of the chunk, or of its first choice, where Moonshot puts it. */
  #usageOf(chunk: Open): unknown {
    const { usage, choices } = chunk;
    if (isRecord(usage)) return usage;
    const [first] = Array.isArray(choices) ? (choices as unknown[]) : [];
    if (!isRecord(first) || !isRecord(first['usage'])) return undefined;
    const { usage: counted } = first;
    delete (first as Open)['usage'];
    return counted;
  }

  #hold(frame: string): void {
    if (this.#includeUsage) this.#usage = frame;
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

/** Whether a chunk contains only the text of one answer. */
function isAlone(held: Held): boolean {
  const choices = typeof held === 'string' ? undefined : held['choices'];
  if (!Array.isArray(choices) || choices.length !== 1) return false;
  const [choice] = choices as unknown[];
  if (!isRecord(choice) || !isRecord(choice['delta'])) return false;
  const { delta } = choice;
  return (
    Object.keys(delta).length === 1 &&
    typeof delta['content'] === 'string' &&
    choice['finish_reason'] === null
  );
}

/** Chunks have only data; event names are dropped. */
const rawOf = ({ raw, data, event }: SseFrame): string => (event === undefined ? raw : frameOf(data));
