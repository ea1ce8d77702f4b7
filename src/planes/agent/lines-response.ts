import { invalidBody } from '../../http/violations.ts';
import { hostEnvelope, type HttpError } from '../../http/error.ts';
import { jsonLines, streamResponse } from '../../http/stream.ts';
import { agentProblem } from './plane.ts';

/** Streams stored lines. A failure is written as the last line. */
export async function linesResponse(
  stored: AsyncGenerator<string, void, undefined>,
  asHttpError: (error: unknown) => HttpError,
): Promise<Response> {
  return await streamResponse(ended(stored), {
    contentType: jsonLines,
    failure: (error) => `${JSON.stringify(hostEnvelope(asHttpError(agentProblem(error))))}\n`,
  });
}

async function* ended(
  lines: AsyncGenerator<string, void, undefined>,
): AsyncGenerator<string, void, undefined> {
  for await (const line of lines) yield `${line}\n`;
}

/** Reads the sequence number after which lines are sent. */
export function afterOf(query: URLSearchParams): number {
  const text = query.get('after');
  if (text === null) return -1;
  const after = /^(?:-1|\d{1,15})$/.test(text) ? Number(text) : undefined;
  if (after !== undefined) return after;
  const message = `expected the seq of a line, a whole number, got '${text.slice(0, 40)}'`;
  throw invalidBody([{ path: 'after', message }]);
}
