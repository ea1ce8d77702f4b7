import { invalidBodyError } from '../../http/violations.ts';
import { hostEnvelope, type HttpError } from '../../http/error.ts';
import { ndjsonType, streamResponse } from '../../http/stream.ts';
import { toHttpError } from './plane.ts';

/** Streams stored lines. A failure is written as the last line. */
export async function streamLines(
  lines: AsyncGenerator<string, void, undefined>,
  asHttpError: (error: unknown) => HttpError,
): Promise<Response> {
  return await streamResponse(withNewlines(lines), {
    contentType: ndjsonType,
    failureFrame: (error) => `${JSON.stringify(hostEnvelope(asHttpError(toHttpError(error))))}\n`,
  });
}

/** Yields lines up to the first event of one of these types, even if others follow. */
export async function* linesUntil(
  lines: AsyncGenerator<string, void, undefined>,
  ...types: readonly string[]
): AsyncGenerator<string, void, undefined> {
  for await (const line of lines) {
    yield line;
    // The event log writes `type` first; most lines are pieces of text, and need no parsing.
    if (types.some((type) => line.startsWith(`{"type":"${type}",`))) return;
  }
}

async function* withNewlines(
  lines: AsyncGenerator<string, void, undefined>,
): AsyncGenerator<string, void, undefined> {
  for await (const line of lines) yield `${line}\n`;
}

/** Reads the sequence number after which lines are sent. */
export function readAfter(query: URLSearchParams): number {
  const text = query.get('after');
  if (text === null) return -1;
  const after = /^(?:-1|\d{1,15})$/.test(text) ? Number(text) : undefined;
  if (after !== undefined) return after;
  const message = `expected the seq of a line, a whole number, got '${text.slice(0, 40)}'`;
  throw invalidBodyError([{ path: 'after', message }]);
}
