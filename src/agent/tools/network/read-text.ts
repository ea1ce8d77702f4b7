import type { IncomingMessage } from 'node:http';
import type { Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import { Refusal } from '../refusal.ts';

export interface TextLimits {
  /** Maximum bytes received. */
  readonly maxWireBytes: number;
  /** Maximum bytes kept after decompression. */
  readonly maxBytes: number;
}

const textTypes =
  /^(?:text\/.+|application\/(?:(?:[\w.+-]+\+)?(?:json|xml|yaml)|(?:x-)?(?:ndjson|javascript|ecmascript|yaml|toml|sh|sql)|jsonl|graphql|rtf|x-www-form-urlencoded)|image\/svg\+xml)$/;

const decoders: Readonly<Record<string, () => Transform>> = {
  gzip: createGunzip,
  'x-gzip': createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
};

/**
 * Decodes the text of a response by its charset; a long text is cut.
 * @throws Refusal when it is not text
 */
export async function readText(
  answer: IncomingMessage,
  limits: TextLimits,
): Promise<{ text: string; truncated: boolean }> {
  const { 'content-type': contentType = '', 'content-encoding': encoding = 'identity' } = answer.headers;
  const type = contentType.split(';')[0]?.trim().toLowerCase() ?? '';
  if (type !== '' && !textTypes.test(type))
    throw new Refusal(`The answer is ${type.slice(0, 100)}, not text.`);
  const charset = /;\s*charset\s*=\s*"?([\w.:-]{1,40})"?/i.exec(contentType)?.[1] ?? 'utf-8';
  let decoder: TextDecoder;
  try {
    decoder = new TextDecoder(charset);
  } catch (error) {
    throw new Refusal(`The answer is in the charset ${charset}, which is not known.`, { cause: error });
  }
  const { bytes, truncated } = await decompress(answer, encoding.trim().toLowerCase(), limits);
  // Streaming mode drops a character that was cut in two.
  const text = decoder.decode(bytes, { stream: truncated });
  if (text.includes('\0')) throw new Refusal('The answer is binary, not text.');
  return { text, truncated };
}

async function decompress(
  answer: IncomingMessage,
  encoding: string,
  { maxWireBytes, maxBytes }: TextLimits,
): Promise<{ bytes: Buffer; truncated: boolean }> {
  const createDecoder = decoders[encoding];
  if (!createDecoder && encoding !== 'identity' && encoding !== '')
    throw new Refusal(`The answer is packed as '${encoding.slice(0, 40)}', which is not known.`);
  let wireBytes = 0;
  const decoder = createDecoder?.();
  const body = decoder ?? answer;
  if (decoder) {
    decoder.on('error', () => undefined); // also after the reader has stopped
    // A broken connection must end the decoder, too.
    answer.on('error', (error) => decoder.destroy(error));
    answer.on('aborted', () => decoder.destroy(new Refusal('The answer broke off.')));
    answer.on('data', (bytes: Buffer) => {
      wireBytes += bytes.length;
      if (wireBytes <= maxWireBytes) return;
      decoder.destroy(new Refusal(`The answer has more than ${maxWireBytes} bytes and unpacks to little.`));
      answer.destroy();
    });
    answer.pipe(decoder);
  }
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      const bytesLeft = maxBytes - size;
      chunks.push(chunk.subarray(0, bytesLeft));
      size += chunk.length;
      if (size > maxBytes) return { bytes: Buffer.concat(chunks), truncated: true };
    }
  } catch (error) {
    if (error instanceof Refusal || !decoder || !isDecompressionError(error)) throw error;
    throw new Refusal(`The answer says that it is packed as '${encoding}', but cannot be unpacked.`, {
      cause: error,
    });
  } finally {
    answer.destroy();
    decoder?.destroy();
  }
  return { bytes: Buffer.concat(chunks), truncated: false };
}

const isDecompressionError = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && /^(?:Z_|ERR_|ERR__ERROR|ERR_BROTLI)/.test(String(error.code));
