import type { HttpError } from '../../http/error.ts';
import { jsonLines, streamResponse } from '../../http/stream.ts';
import type { Clock } from './clock.ts';
import { ollamaEnvelope } from '../../wires/ollama/error.ts';
import { collectPieces, type Piece, type PieceEvent, type PiecesEnd } from './pieces.ts';

/** How one route writes the parts of its answers. */
export interface AnswerForm {
  /** As the request names it. */
  readonly model: string;
  readonly clock: Clock;
  /** The members of a line that hold a piece of the answer; of the last one it is empty. */
  readonly body: (piece: Piece) => object;
  /** Further members of the last line. */
  readonly atEnd?: () => object;
}

/** A line of newline-delimited JSON. */
const line = (value: unknown): string => `${JSON.stringify(value)}\n`;

/** Lines of JSON; what breaks in the middle is a last line with the error. */
export const lineStream = (
  values: AsyncGenerator<unknown, void, undefined>,
  asHttpError: (error: unknown) => HttpError,
): Promise<Response> =>
  streamResponse(written(values), {
    contentType: jsonLines,
    failure: (error) => line(ollamaEnvelope(asHttpError(error))),
  });

async function* written(
  values: AsyncGenerator<unknown, void, undefined>,
): AsyncGenerator<string, void, undefined> {
  for await (const value of values) yield line(value);
}

/** The answer in lines, or in one body. */
export async function answerInLines(
  events: AsyncGenerator<PieceEvent, void, undefined>,
  form: AnswerForm,
  { stream, asHttpError }: { stream: boolean; asHttpError: (error: unknown) => HttpError },
): Promise<Response> {
  if (stream) return await lineStream(streamed(events, form), asHttpError);
  const { piece, end } = await collectPieces(events);
  return Response.json({ ...partOf(piece, form), ...lastOf(end, form) });
}

async function* streamed(events: AsyncIterable<PieceEvent>, form: AnswerForm) {
  for await (const event of events) {
    if (event.type === 'end') yield { ...partOf({ content: '' }, form), ...lastOf(event, form) };
    else yield partOf(event, form);
  }
}

function partOf(piece: Piece, { model, clock, body }: AnswerForm) {
  const { logprobs = [] } = piece;
  return {
    model,
    created_at: clock.now(),
    ...body(piece),
    ...(logprobs.length > 0 ? { logprobs } : {}),
    done: false,
  };
}

function lastOf({ isCut, timings }: PiecesEnd, { clock, atEnd }: AnswerForm) {
  return {
    done: true,
    done_reason: isCut ? 'length' : 'stop',
    ...atEnd?.(),
    ...clock.durations(timings),
  };
}
