import type { RequestFacts } from './wire.ts';

/** A pool chooses by so much of the text which host may have it in its cache. */
const maxPrefixLength = 4096;
/**
 * What is read into the prompt from elsewhere has no size that anybody knows beforehand; any bytes of files at all bound
 * the input by the whole window.
 */
export const unknownSize = 1;

/** Counts what the model will read. */
export class Measure {
  textBytes = 0;
  parts = 0;
  images = 0;
  fileBytes = 0;
  prefix = '';

  /** @param text anything else counts for nothing */
  text(text: unknown): void {
    if (typeof text !== 'string') return;
    this.bytes(text);
    if (this.prefix.length < maxPrefixLength)
      this.prefix += text.slice(0, maxPrefixLength - this.prefix.length);
  }

  /** Text that is no beginning of a prompt. */
  bytes(text: string): void {
    this.textBytes += Buffer.byteLength(text);
  }

  /** @param text or the ids of tokens: a byte at the most is a token at the most, so an id counts as a byte */
  part(text: unknown): void {
    this.parts++;
    if (Array.isArray(text)) this.textBytes += text.length;
    else this.text(text);
  }

  /** @param data base64, or a data URL; anything else counts for nothing */
  file(data: unknown): void {
    if (typeof data !== 'string') return;
    const start = data.startsWith('data:') ? data.indexOf(',') + 1 : 0;
    this.fileBytes += Math.ceil(((data.length - start) * 3) / 4);
  }

  get counts(): Pick<RequestFacts, 'textBytes' | 'parts' | 'images' | 'fileBytes' | 'prefix'> {
    const { textBytes, parts, images, fileBytes, prefix } = this;
    return { textBytes, parts, images, fileBytes, prefix };
  }
}
