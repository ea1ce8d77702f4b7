import type { IncomingMessage } from 'node:http';
import type { Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import { Refusal } from '../refusal.ts';

export interface TextLimits {
  /** Maximum bytes received. */
  readonly mostWireBytes: number;
  /** Maximum bytes kept after decompression. */
  readonly mostBytes: number;
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
  const { 'content-type': full = '', 'content-encoding': coding = 'identity' } = answer.headers;
  const type = full.split(';')[0]?.trim().toLowerCase() ?? '';
  if (type !== '' && !textTypes.test(type))
    throw new Refusal(`The answer is ${type.slice(0, 100)}, not text.`);
  const charset = /;\s*charset\s*=\s*"?([\w.:-]{1,40})"?/i.exec(full)?.[1] ?? 'utf-8';
  let decoder: TextDecoder;
  try {
    decoder = new TextDecoder(charset);
  } catch (error) {
    throw new Refusal(`The answer is in the charset ${charset}, which is not known.`, { cause: error });
  }
  const { bytes, truncated } = await unpacked(answer, coding.trim().toLowerCase(), limits);
  // Streaming mode drops a character that was cut in two.
  const text = decoder.decode(bytes, { stream: truncated });
  if (text.includes('\0')) throw new Refusal('The answer is binary, not text.');
  return { text, truncated };
}

async function unpacked(
  answer: IncomingMessage,
  coding: string,
  { mostWireBytes, mostBytes }: TextLimits,
): Promise<{ bytes: Buffer; truncated: boolean }> {
  const make = decoders[coding];
  if (!make && coding !== 'identity' && coding !== '')
    throw new Refusal(`The answer is packed as '${coding.slice(0, 40)}', which is not known.`);
  let wire = 0;
  const decoder = make?.();
  const body = decoder ?? answer;
  if (decoder) {
    decoder.on('error', () => undefined); // also after the reader has stopped
    // A broken connection must end the decoder, too.
    answer.on('error', (error) => decoder.destroy(error));
    answer.on('aborted', () => decoder.destroy(new Refusal('The answer broke off.')));
    answer.on('data', (bytes: Buffer) => {
      wire += bytes.length;
      if (wire <= mostWireBytes) return;
      decoder.destroy(new Refusal(`The answer has more than ${mostWireBytes} bytes and unpacks to little.`));
      answer.destroy();
    });
    answer.pipe(decoder);
  }
  const parts: Buffer[] = [];
  let size = 0;
  try {
    for await (const part of body as AsyncIterable<Buffer>) {
      const room = mostBytes - size;
      parts.push(part.subarray(0, room));
      size += part.length;
      if (size > mostBytes) return { bytes: Buffer.concat(parts), truncated: true };
    }
  } catch (error) {
    if (error instanceof Refusal || !decoder || !isPackingFault(error)) throw error;
    throw new Refusal(`The answer says that it is packed as '${coding}', but cannot be unpacked.`, {
      cause: error,
    });
  } finally {
    answer.destroy();
    decoder?.destroy();
  }
  return { bytes: Buffer.concat(parts), truncated: false };
}

const isPackingFault = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && /^(?:Z_|ERR_|ERR__ERROR|ERR_BROTLI)/.test(String(error.code));
