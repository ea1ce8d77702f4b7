import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import { findIllFormedNames } from '../words/ill-formed-names.ts';
import { ClientGone, HttpError, type HttpErrorOptions } from './error.ts';
import { exceedsJsonLimits, type JsonLimits } from './json-limits.ts';

/** Source of a request body. */
export interface BodySource {
  /** Returns a header by its lower-case name. */
  readonly header: (name: string) => string | undefined;
  /** Node's request object, where there is one; reading it is faster than reading a web stream. */
  readonly incoming: IncomingMessage | undefined;
  readonly webStream: () => ReadableStream<Uint8Array> | null;
}

export interface JsonBody {
  /** The text as received. */
  readonly text: string;
  readonly value: unknown;
}

/** A listener's limits, error codes and error type for JSON bodies. */
export interface JsonRules extends JsonLimits {
  /** Error codes of the refusals that differ between listeners. */
  readonly codes: Readonly<Record<'depth' | 'encoding', string>>;
  readonly refuse: (status: number, code: string, message: string, options?: HttpErrorOptions) => HttpError;
}

/** @throws `refuse` 400, 413, 415 @throws ClientGone */
export async function readJson(
  source: BodySource,
  limitBytes: number,
  rules: JsonRules,
  onBytes?: (bytes: number) => void,
): Promise<JsonBody> {
  requireJsonType(source, rules);
  return parseJson(await readBytes(source, limitBytes, rules, onBytes), rules);
}

/**
 * Requires a JSON content type. This also protects against cross-site requests: a page of another origin can send
 * text/plain, a form or no type at all, but not application/json.
 */
export function requireJsonType(source: BodySource, { codes, refuse }: JsonRules): void {
  const type = source.header('content-type');
  if (type === undefined || !/^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i.test(type)) {
    const received = type ? `'${type.slice(0, 80)}'` : 'none';
    const message = `The body must be JSON: send 'Content-Type: application/json' (got ${received}).`;
    throw refuse(415, 'unsupported_media_type', message);
  }
  refuseEncoded(source, { codes, refuse });
}

export function refuseEncoded(
  source: BodySource,
  { codes, refuse }: Pick<JsonRules, 'codes' | 'refuse'>,
): void {
  const encoding = source.header('content-encoding');
  if (encoding === undefined || encoding.toLowerCase() === 'identity') return;
  const message = `The body is encoded as '${encoding.slice(0, 80)}'; send it without Content-Encoding.`;
  throw refuse(415, codes.encoding, message);
}

export function parseJson(bytes: Buffer, rules: JsonRules): JsonBody {
  const { refuse } = rules;
  if (!isUtf8(bytes)) throw refuse(400, 'invalid_json', 'The body is not valid JSON: it is not UTF-8.');
  // JSON does not allow a byte order mark, but some editors write one.
  const start = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0;
  const text = bytes.toString('utf8', start);
  refuseHeavyJson(text, rules);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    const reason = (error as Error).message.slice(0, 200);
    throw refuse(400, 'invalid_json', `The body is not valid JSON: ${reason}.`);
  }
  const [first, ...others] = findIllFormedNames(text, value);
  if (first === undefined) return { text, value };
  const violations = [first, ...others];
  const message = violations.map(({ path, message: what }) => `${path}: ${what}`).join('; ');
  throw refuse(400, 'invalid_value', `${message}.`, { param: first.path, violations });
}

/** Refuses JSON text that would take too much memory, stack or time to parse. */
export function refuseHeavyJson(text: string, rules: JsonRules): void {
  const { codes, refuse, maxDepth, maxValues } = rules;
  switch (exceedsJsonLimits(text, rules)) {
    case 'depth': {
      const message = `The body nests arrays and objects more than ${maxDepth} deep; send a flatter one.`;
      throw refuse(400, codes.depth, message);
    }
    case 'values':
      throw refuse(400, 'json_too_large', `The body has more than ${maxValues} values; send a smaller one.`);
    case undefined:
  }
}

/** Reads the whole body. @param onBytes called with the size of every chunk; may refuse the body by throwing */
export async function readBytes(
  source: BodySource,
  limitBytes: number,
  { refuse }: Pick<JsonRules, 'refuse'>,
  onBytes?: (bytes: number) => void,
): Promise<Buffer> {
  const tooLarge = () =>
    refuse(413, 'body_too_large', `The body is larger than the limit of ${limitBytes} bytes.`);
  if (Number(source.header('content-length') ?? 0) > limitBytes) throw tooLarge();
  const chunks: Uint8Array[] = [];
  let sizeBytes = 0;
  const addChunk = (chunk: Uint8Array) => {
    sizeBytes += chunk.byteLength;
    if (sizeBytes > limitBytes) throw tooLarge();
    onBytes?.(chunk.byteLength);
    chunks.push(chunk);
  };
  try {
    if (source.incoming) await forEachChunk(source.incoming, addChunk);
    else for await (const chunk of source.webStream() ?? []) addChunk(chunk);
  } catch (error) {
    if (error instanceof HttpError) throw error;
    throw new ClientGone('the request was cut off', { cause: error });
  }
  const [only] = chunks;
  return chunks.length === 1 && only
    ? Buffer.from(only.buffer, only.byteOffset, only.byteLength)
    : Buffer.concat(chunks);
}

/** Yields the body in chunks. Throws a 413 when it exceeds the limit. */
export async function* boundedChunks(
  source: BodySource,
  limitBytes: number,
): AsyncGenerator<Uint8Array, void, undefined> {
  const tooLarge = () =>
    new HttpError(413, 'body_too_large', `The body is larger than the limit of ${limitBytes} bytes.`);
  if (Number(source.header('content-length') ?? 0) > limitBytes) throw tooLarge();
  const reader = source.webStream()?.getReader();
  if (!reader) return;
  let sizeBytes = 0;
  for (let chunk = await reader.read(); !chunk.done; chunk = await reader.read()) {
    sizeBytes += chunk.value.byteLength;
    if (sizeBytes > limitBytes) throw tooLarge();
    yield chunk.value;
  }
}

/**
 * Reads the request's chunks at a tenth of the cost of `for await`. On a refusal the unread rest stays in the socket,
 * so that a response can still be sent.
 */
function forEachChunk(incoming: IncomingMessage, onChunk: (chunk: Uint8Array) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    const settle = (error?: unknown) => {
      incoming.off('data', onData).off('end', settle).off('error', settle).off('close', onClose);
      if (error === undefined) resolve();
      else reject(error);
    };
    const onData = (chunk: Uint8Array) => {
      try {
        onChunk(chunk);
      } catch (error) {
        incoming.pause();
        settle(error);
      }
    };
    const onClose = () => settle(new Error('closed before its end'));
    if (incoming.destroyed && !incoming.readableEnded) onClose();
    else incoming.on('data', onData).on('end', settle).on('error', settle).on('close', onClose);
  });
}
