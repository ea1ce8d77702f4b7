import { isRecord } from '../../util/json.ts';
import type { HttpError } from '../../http/error.ts';
import type { AnswerEvent } from '../core/answer.ts';
import type { AnswerMetadata, SseFrame, StreamTranslation } from '../core/wire.ts';
import { ChunkReader, type FrameContent, parseFrame } from './reader.ts';
import { repairChoice, repairHead } from './repair.ts';
import { errorFrame, sseFrame, doneFrame } from './writer.ts';

type MutableJson = Record<string, unknown>;
interface PassedFrame {
  readonly text: string;
  readonly events: AnswerEvent[];
}

/** OpenAI writes this into every chunk, although its schema does not allow null. */
const nullFingerprint = '"system_fingerprint":null,';

/**
 * The JSON around the text of a chunk that contains nothing else of interest; the next chunk usually has the same.
 */
interface TextFrame {
  readonly before: string;
  readonly after: string;
}

const contentStarts = '"content":"';
/** Characters that end or escape a JSON string. */
const special = /["\\\p{Cc}]/u;

/** Splits the JSON of a chunk around its text. @param content the text that was read from the chunk */
function splitAroundText(data: string, content: string): TextFrame | undefined {
  const start = data.indexOf(contentStarts) + contentStarts.length;
  const end = start + content.length;
  if (start < contentStarts.length || special.test(content)) return undefined;
  if (data.slice(start, end) !== content || data[end] !== '"') return undefined;
  return { before: data.slice(0, start), after: data.slice(end) };
}

/**
 * The text of a chunk that differs from the last one only in its text; undefined where other parts may differ.
 */
function extractText(data: string, { before, after }: TextFrame): string | undefined {
  if (data.length < before.length + after.length || !data.startsWith(before) || !data.endsWith(after))
    return undefined;
  const text = data.slice(before.length, data.length - after.length);
  return text === '' || special.test(text) ? undefined : text;
}

/** Passes chunks through unchanged, except for misplaced usage and missing members. */
export class PassthroughStream implements StreamTranslation {
  readonly #metadata: AnswerMetadata;
  readonly #reader: ChunkReader;
  readonly #includeUsage: boolean;
  /** Answers whose first chunk has arrived. */
  readonly #startedChoices = new Set<number>();
  /**
   * The JSON around the last chunk's text, where the chunk passed unchanged and contained only text; saves parsing the
   * next chunk.
   */
  #textFrame: TextFrame | undefined;
  /** The frame with the usage, which is sent last. */
  #usageFrame = '';

  constructor(metadata: AnswerMetadata) {
    this.#metadata = metadata;
    this.#includeUsage = metadata.request.facts.includeUsage;
    this.#reader = new ChunkReader(metadata.request.facts.answers);
  }

  push(frame: SseFrame): PassedFrame {
    if (this.#reader.isDone) return { text: '', events: [] };
    if (this.#textFrame && frame.event === undefined) {
      const text = extractText(frame.data, this.#textFrame);
      if (text !== undefined) return { text: frame.raw, events: [{ type: 'text', text }] };
    }
    const content = parseFrame(frame);
    const events = this.#reader.read(content, frame.event);
    const isFailed = events.some(({ type }) => type === 'failure');
    const text = typeof content === 'string' || isFailed ? '' : this.#pass(frame, content);
    const [only] = events;
    this.#textFrame =
      events.length === 1 &&
      only?.type === 'text' &&
      !only.logprobs &&
      text === frame.raw &&
      hasOnlyText(content)
        ? splitAroundText(frame.data, only.text)
        : undefined;
    return { text, events };
  }

  #pass(frame: SseFrame, chunk: MutableJson): string {
    let { data } = frame;
    let isEdited = false;
    if (chunk['system_fingerprint'] === null && data.includes(nullFingerprint)) {
      data = data.replace(nullFingerprint, '');
      // Cheaper than `delete`, and serialized the same.
      chunk['system_fingerprint'] = undefined;
      isEdited = true;
    }
    let changed = repairHead(chunk, 'chat.completion.chunk', this.#metadata);
    const usage = this.#takeUsage(chunk);
    if (!Array.isArray(chunk['choices'])) {
      chunk['choices'] = [];
      changed = true;
    }
    const choices = chunk['choices'] as unknown[];
    for (let index = 0; index < choices.length; index++) {
      const choice = choices[index];
      if (isRecord(choice)) changed = this.#repairChunkChoice(choice, index) || changed;
    }
    if (usage) {
      if (choices.length === 0) {
        // A chunk with only usage is correct; it is sent after all others.
        this.#holdUsage(
          changed ? sseFrame(JSON.stringify(chunk)) : isEdited ? sseFrame(data) : rawFrame(frame),
        );
        return '';
      }
      this.#holdUsage(sseFrame(JSON.stringify({ ...chunk, choices: [], usage })));
      if (this.#includeUsage) chunk['usage'] = null;
      else delete chunk['usage'];
      changed = true;
    } else if (this.#includeUsage && chunk['usage'] === undefined) {
      // With `include_usage` all chunks have the member.
      chunk['usage'] = null;
      data = `${data.trimEnd().slice(0, -1)},"usage":null}`;
      isEdited = true;
    }
    if (changed) return sseFrame(JSON.stringify(chunk));
    return isEdited ? sseFrame(data) : rawFrame(frame);
  }

  #repairChunkChoice(choice: MutableJson, position: number): boolean {
    const index = typeof choice['index'] === 'number' ? choice['index'] : position;
    const isFirst = !this.#startedChoices.has(index);
    if (isFirst) this.#startedChoices.add(index);
    return repairChoice(choice, position, isFirst, this.#reader.choiceReader(index));
  }

  /** The usage of the chunk, or of its first choice, where Moonshot puts it. */
  #takeUsage(chunk: MutableJson): unknown {
    const { usage, choices } = chunk;
    if (isRecord(usage)) return usage;
    const [first] = Array.isArray(choices) ? (choices as unknown[]) : [];
    if (!isRecord(first) || !isRecord(first['usage'])) return undefined;
    const { usage: choiceUsage } = first;
    delete (first as MutableJson)['usage'];
    return choiceUsage;
  }

  #holdUsage(frame: string): void {
    if (this.#includeUsage) this.#usageFrame = frame;
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

/** Whether a chunk contains only the text of one answer. */
function hasOnlyText(content: FrameContent): boolean {
  const choices = typeof content === 'string' ? undefined : content['choices'];
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
const rawFrame = ({ raw, data, event }: SseFrame): string => (event === undefined ? raw : sseFrame(data));
