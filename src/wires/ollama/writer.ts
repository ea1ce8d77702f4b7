import type { HttpError } from '../../http/error.ts';
import { isRecord, tryParseJson } from '../../util/json.ts';
import type { AnswerEvent, Timings, TokenLogprob } from '../core/answer.ts';
import type { StreamWriter } from '../core/wire.ts';
import { ollamaEnvelope } from './error.ts';
import type { ToolCallLine } from './line-schema.ts';

/** Formats the times of one answer for Ollama. */
interface AnswerClock {
  readonly now: () => string;
  readonly loadDurations: () => object;
  readonly durations: (timings: Timings) => object;
}

/** Metadata of an answer, and the format of a route's lines. */
export interface OllamaAnswerMetadata {
  /** The model name of the request. */
  readonly model: string;
  readonly clock: AnswerClock;
  /** Returns the members of a line for a piece of the answer; the piece of the last line is empty. */
  readonly formatPiece: (piece: Piece) => object;
  /** Additional members of the last line. */
  readonly finalMembers?: () => object;
}

/** A part of an answer that is written in one line. */
interface Piece {
  readonly content?: string;
  readonly thinking?: string;
  readonly calls?: readonly ToolCallLine[];
  readonly logprobs?: readonly TokenLogprob[];
}

export const formatChatPiece = ({ content = '', thinking, calls = [] }: Piece) => ({
  message: {
    role: 'assistant' as const,
    content,
    ...(thinking === undefined ? {} : { thinking }),
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  },
});

export const formatGeneratePiece = ({ content = '', thinking }: Piece) => ({
  response: content,
  ...(thinking === undefined ? {} : { thinking }),
});

export const ollamaWire = {
  body(events: readonly AnswerEvent[], metadata: OllamaAnswerMetadata): object {
    const writer = new LineWriter(metadata);
    const pieces = events.flatMap((event) => writer.toPieces(event));
    const reasoningPieces = pieces.flatMap(({ thinking = [] }) => thinking);
    return writer.finalLine({
      content: pieces.map(({ content = '' }) => content).join(''),
      ...(reasoningPieces.length > 0 ? { thinking: reasoningPieces.join('') } : {}),
      calls: pieces.flatMap(({ calls = [] }) => calls),
      logprobs: pieces.flatMap(({ logprobs = [] }) => logprobs),
    });
  },
  writer: (metadata: OllamaAnswerMetadata): StreamWriter => new LineWriter(metadata),
};

/**
 * The body of the answer to a request without a prompt, which only loads the model. The host keeps the model even on an
 * unload request.
 */
export const createLoadedBody = (
  { model, clock, formatPiece }: OllamaAnswerMetadata,
  isUnload: boolean,
): object => ({
  model,
  created_at: clock.now(),
  ...formatPiece({}),
  done: true,
  done_reason: isUnload ? 'unload' : 'load',
  ...clock.loadDurations(),
});

/** Writes a line of newline-delimited JSON. */
export const jsonLine = (value: unknown): string => `${JSON.stringify(value)}\n`;

/**
 * Writes an answer as lines. A call is written in one piece, because its arguments are an object on this wire.
 */
class LineWriter implements StreamWriter {
  readonly #metadata: OllamaAnswerMetadata;
  #call: { readonly index: number; readonly id: string; readonly name: string; text: string } | undefined;
  #timings: Timings | undefined;
  #isTruncated = false;

  constructor(metadata: OllamaAnswerMetadata) {
    this.#metadata = metadata;
  }

  write(event: AnswerEvent): string {
    return this.toPieces(event)
      .map((piece) => jsonLine(this.#writePiece(piece)))
      .join('');
  }

  end(): string {
    return jsonLine(this.finalLine({}));
  }

  fail(error: HttpError): string {
    return jsonLine(ollamaEnvelope(error));
  }

  toPieces(event: AnswerEvent): Piece[] {
    if (event.type === 'usage') this.#timings = event.timings;
    if (event.type === 'tool_arguments' && this.#call) this.#call.text += event.text;
    if (event.type === 'usage' || event.type === 'tool_arguments' || event.type === 'progress') return [];
    const pieces = this.#call ? [toCallPiece(this.#call)] : [];
    this.#call = undefined;
    if (event.type === 'tool_call') {
      const { index, id, name } = event;
      this.#call = { index, id, name, text: '' };
    } else if (event.type === 'finish') this.#isTruncated = event.reason === 'length';
    else if (event.type === 'text' || event.type === 'reasoning') {
      const { text, logprobs = [] } = event;
      pieces.push({ ...(event.type === 'text' ? { content: text } : { thinking: text }), logprobs });
    }
    return pieces;
  }

  /** The last line of a stream, or the complete answer. */
  finalLine(piece: Piece): object {
    const { clock, finalMembers } = this.#metadata;
    if (!this.#timings) throw new Error('the engine ended a generation without timings');
    return {
      ...this.#writePiece(piece),
      done: true,
      done_reason: this.#isTruncated ? 'length' : 'stop',
      ...finalMembers?.(),
      ...clock.durations(this.#timings),
    };
  }

  #writePiece(piece: Piece): object {
    const { model, clock, formatPiece } = this.#metadata;
    const { logprobs = [] } = piece;
    return {
      model,
      created_at: clock.now(),
      ...formatPiece(piece),
      ...(logprobs.length > 0 ? { logprobs } : {}),
      done: false,
    };
  }
}

/** Converts a completed call; a call with truncated arguments is written as text. */
function toCallPiece({
  index,
  id,
  name,
  text,
}: {
  index: number;
  id: string;
  name: string;
  text: string;
}): Piece {
  const value = text === '' ? {} : tryParseJson(text);
  return isRecord(value)
    ? { calls: [{ id, function: { index, name, arguments: value } }] }
    : { content: text };
}
