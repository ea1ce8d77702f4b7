import { invalidResponseFault } from './fault.ts';

/** Yields the lines of a body as they arrive (NDJSON or server-sent events). Rejects when the connection fails. */
export async function* readLines(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
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
    // Cancels the body when the consumer leaves the loop early.
    await reader.cancel().catch(() => undefined);
  }
}

/** Yields one JSON object per line. */
export async function* readJsonLines<Value>(response: Response): AsyncGenerator<Value> {
  if (!response.body) return;
  for await (const line of readLines(response.body)) if (line.trim() !== '') yield parseObject(line) as Value;
}

/** Yields the data of server-sent events up to `[DONE]`. */
export async function* readEvents<Value>(response: Response): AsyncGenerator<Value> {
  if (!response.body) return;
  for await (const line of readLines(response.body)) {
    if (!line.startsWith('data:')) continue;
    const data = line.slice(5).trim();
    if (data === '[DONE]') return;
    if (data !== '') yield parseObject(data) as Value;
  }
}

/** @throws Fault when a line is truncated or not a JSON object */
function parseObject(line: string): object {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (error) {
    throw invalidResponseFault(error);
  }
  if (typeof value === 'object' && value !== null) return value;
  throw invalidResponseFault(line.slice(0, 40));
}
