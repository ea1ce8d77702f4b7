import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import { isRecord } from '../../util/json.ts';
import { WireError, invalidRequest } from '../../wires/core/error.ts';
import { illFormedNames } from '../../words/ill-formed-names.ts';
import type { BodyShare } from './body-shares.ts';
import { checkShape } from './json-shape.ts';

/** The caller closed the connection before the request was whole. */
export class CallerGone extends Error {}

/** What a request's body is read from. */
export interface BodySource {
  readonly header: (name: string) => string | undefined;
  /** Node's own request, where there is one: faster than a web stream. */
  readonly incoming: IncomingMessage | undefined;
  readonly web: () => ReadableStream<Uint8Array> | null;
}

export interface JsonBody {
  /** As it came. */
  readonly text: string;
  readonly value: Readonly<Record<string, unknown>>;
}

/** A JSON object of at most `limit` bytes. @throws WireError 400, 413, 415, 429 @throws CallerGone */
export async function readJsonObject(
  source: BodySource,
  limit: number,
  share?: BodyShare,
): Promise<JsonBody> {
  const type = source.header('content-type');
  if (type === undefined || !/^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i.test(type))
    throw new WireError(
      415,
      'invalid_request_error',
      `The body must be JSON with 'content-type: application/json', got ${type === undefined ? 'none' : `'${type.slice(0, 80)}'`}.`,
      { code: 'unsupported_media_type' },
    );
  const encoding = source.header('content-encoding');
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity')
    throw new WireError(
      415,
      'invalid_request_error',
      `The body must not be compressed, got 'content-encoding: ${encoding.slice(0, 80)}'.`,
      { code: 'unsupported_media_type' },
    );
  const text = await readText(source, limit, share).finally(share?.close);
  checkShape(text);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw invalidRequest(`The body is not JSON: ${(error as Error).message.slice(0, 200)}.`, {
      code: 'invalid_json',
    });
  }
  if (!isRecord(value))
    throw invalidRequest(
      `The body must be a JSON object, got ${value === null ? 'null' : Array.isArray(value) ? 'a list' : `a ${typeof value}`}.`,
      { code: 'invalid_type' },
    );
  const illFormed = illFormedNames(text, value);
  if (illFormed[0] !== undefined)
    throw invalidRequest(`${illFormed.map(({ path, message }) => `${path}: ${message}`).join('; ')}.`, {
      code: 'invalid_value',
      param: illFormed[0].path,
      violations: illFormed,
    });
  return { text, value };
}

async function readText(source: BodySource, limit: number, share: BodyShare | undefined): Promise<string> {
  const declared = Number(source.header('content-length') ?? Number.NaN);
  if (declared > limit) throw tooLarge(limit);
  const parts: Uint8Array[] = [];
  let size = 0;
  const take = (part: Uint8Array) => {
    size += part.byteLength;
    if (size > limit) throw tooLarge(limit);
    share?.take(part.byteLength);
    parts.push(part);
  };
  try {
    if (source.incoming) await each(source.incoming, take);
    else for await (const part of source.web() ?? []) take(part);
  } catch (error) {
    if (error instanceof WireError) throw error;
    throw new CallerGone('the request was cut off', { cause: error });
  }
  const bytes =
    parts.length === 1 && parts[0]
      ? Buffer.from(parts[0].buffer, parts[0].byteOffset, size)
      : Buffer.concat(parts);
  if (!isUtf8(bytes)) throw invalidRequest('The body is not UTF-8.', { code: 'invalid_encoding' });
  // A byte order mark is no JSON, yet some editors write it.
  return bytes.toString('utf8', bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0);
}

/** As `for await`, at a tenth of its cost; and what was not read stays, so that there can be an answer. */
function each(incoming: IncomingMessage, take: (part: Uint8Array) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    const over = (error?: unknown) => {
      incoming.off('data', data).off('end', over).off('error', over).off('close', closed);
      if (error === undefined) resolve();
      else reject(error);
    };
    const data = (part: Uint8Array) => {
      try {
        take(part);
      } catch (error) {
        incoming.pause();
        over(error);
      }
    };
    const closed = () => over(new Error('closed before its end'));
    if (incoming.destroyed && !incoming.readableEnded) closed();
    else incoming.on('data', data).on('end', over).on('error', over).on('close', closed);
  });
}

const tooLarge = (limit: number) =>
  new WireError(
    413,
    'invalid_request_error',
    `The body is larger than ${limit} bytes, which is the most that this gateway takes.`,
    {
      code: 'body_too_large',
    },
  );
