import type { HttpError } from '../../http/error.ts';
import { isRecord, parsedJson } from '../../util/json.ts';
import type { AnswerEvent, Timings, TokenLogprob } from '../core/answer.ts';
import type { StreamWriter } from '../core/wire.ts';
import { ollamaEnvelope } from './error.ts';
import type { ToolCallLine } from './line-schema.ts';

/** Formats the times of one answer for Ollama. */
interface Clock {
  readonly now: () => string;
  readonly loading: () => object;
  readonly durations: (timings: Timings) => object;
}

/** Metadata of an answer, and the format of a route's lines. */
export interface OllamaAbout {
  /** The model name of the request. */
  readonly model: string;
  readonly clock: Clock;
  /** Returns the members of a line for a piece of the answer; the piece of the last line is empty. */
  readonly form: (piece: Piece) => object;
  /** Additional members of the last line. */
  readonly atEnd?: () => object;
}

/** A part of an answer that is written in one line. */
interface Piece {
  readonly content?: string;
  readonly thinking?: string;
  readonly calls?: readonly ToolCallLine[];
  readonly logprobs?: readonly TokenLogprob[];
}

export const chatForm = ({ content = '', thinking, calls = [] }: Piece) => ({
  message: {
    role: 'assistant' as const,
    content,
    ...(thinking === undefined ? {} : { thinking }),
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  },
});

export const generateForm = ({ content = '', thinking }: Piece) => ({
  response: content,
  ...(thinking === undefined ? {} : { thinking }),
});

export const ollamaWire = {
  body(events: readonly AnswerEvent[], about: OllamaAbout): object {
    const writer = new LineWriter(about);
    const pieces = events.flatMap((event) => writer.pieces(event));
    const thoughts = pieces.flatMap(({ thinking = [] }) => thinking);
    return writer.last({
      content: pieces.map(({ content = '' }) => content).join(''),
      ...(thoughts.length > 0 ? { thinking: thoughts.join('') } : {}),
      calls: pieces.flatMap(({ calls = [] }) => calls),
      logprobs: pieces.flatMap(({ logprobs = [] }) => logprobs),
    });
  },
  writer: (about: OllamaAbout): StreamWriter => new LineWriter(about),
};

/**
 * The body of the answer to a request without a prompt, which only loads the model. The host keeps the model even on an
 * unload request.
 */
export const loadedBody = ({ model, clock, form }: OllamaAbout, isUnload: boolean): object => ({
  model,
  created_at: clock.now(),
  ...form({}),
  done: true,
  done_reason: isUnload ? 'unload' : 'load',
  ...clock.loading(),
});

/** Writes a line of newline-delimited JSON. */
export const line = (value: unknown): string => `${JSON.stringify(value)}\n`;

/**
 * Writes an answer as lines. A call is written in one piece, because its arguments are an object on this wire.
 */
class LineWriter implements StreamWriter {
  readonly #about: OllamaAbout;
  #call: { readonly index: number; readonly id: string; readonly name: string; text: string } | undefined;
  #took: Timings | undefined;
  #isCut = false;

  constructor(about: OllamaAbout) {
    this.#about = about;
  }

  write(event: AnswerEvent): string {
    return this.pieces(event)
      .map((piece) => line(this.#part(piece)))
      .join('');
  }

  end(): string {
    return line(this.last({}));
  }

  fail(error: HttpError): string {
    return line(ollamaEnvelope(error));
  }

  pieces(event: AnswerEvent): Piece[] {
    if (event.type === 'usage') this.#took = event.timings;
    if (event.type === 'tool_arguments' && this.#call) this.#call.text += event.text;
    if (event.type === 'usage' || event.type === 'tool_arguments' || event.type === 'progress') return [];
    const pieces = this.#call ? [called(this.#call)] : [];
    this.#call = undefined;
    if (event.type === 'tool_call') {
      const { index, id, name } = event;
      this.#call = { index, id, name, text: '' };
    } else if (event.type === 'finish') this.#isCut = event.reason === 'length';
    else if (event.type === 'text' || event.type === 'reasoning') {
      const { text, logprobs = [] } = event;
      pieces.push({ ...(event.type === 'text' ? { content: text } : { thinking: text }), logprobs });
    }
    return pieces;
  }

  /** The last line of a stream, or the complete answer. */
  last(piece: Piece): object {
    const { clock, atEnd } = this.#about;
    if (!this.#took) throw new Error('the engine ended a generation without timings');
    return {
      ...this.#part(piece),
      done: true,
      done_reason: this.#isCut ? 'length' : 'stop',
      ...atEnd?.(),
      ...clock.durations(this.#took),
    };
  }

  #part(piece: Piece): object {
    const { model, clock, form } = this.#about;
    const { logprobs = [] } = piece;
    return {
      model,
      created_at: clock.now(),
      ...form(piece),
      ...(logprobs.length > 0 ? { logprobs } : {}),
      done: false,
    };
  }
}

/** Converts a completed call; a call with truncated arguments is written as text. */
function called({ index, id, name, text }: { index: number; id: string; name: string; text: string }): Piece {
  const value = text === '' ? {} : parsedJson(text);
  return isRecord(value)
    ? { calls: [{ id, function: { index, name, arguments: value } }] }
    : { content: text };
}
