import { notWhole } from './fault.ts';

/** The lines of a body as they come (NDJSON, or the lines of server-sent events). Ends with the body; rejects where it breaks. */
export async function* lines(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  let rest = '';
  const reader = body
    .pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>)
    .getReader();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      const parts = (rest + value).split('\n');
      rest = parts.pop() ?? '';
      yield* parts;
    }
    if (rest !== '') yield rest;
  } finally {
    // Whoever stops reading wants no more of it.
    await reader.cancel().catch(() => undefined);
  }
}

/** A JSON object a line. */
export async function* jsonLines<Value>(response: Response): AsyncGenerator<Value> {
  if (!response.body) return;
  for await (const line of lines(response.body)) if (line.trim() !== '') yield objectOf(line) as Value;
}

/** The data of server-sent events up to `[DONE]`. */
export async function* events<Value>(response: Response): AsyncGenerator<Value> {
  if (!response.body) return;
  for await (const line of lines(response.body)) {
    if (!line.startsWith('data:')) continue;
    const data = line.slice(5).trim();
    if (data === '[DONE]') return;
    if (data !== '') yield objectOf(data) as Value;
  }
}

/** @throws Fault where a line was cut, or is no object */
function objectOf(line: string): object {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (error) {
    throw notWhole(error);
  }
  if (typeof value === 'object' && value !== null) return value;
  throw notWhole(line.slice(0, 40));
}
