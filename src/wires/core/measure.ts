import type { RequestFacts } from './wire.ts';

/** A pool chooses by so much of the text which host may have it in its cache. */
const longestPrefix = 4096;
/** What is read from elsewhere has no size that anybody knows; any file at all bounds the input by the whole window. */
export const unknownSize = 1;

/** Counts what the model will read, while a wire goes through a request. */
export class Measure {
  textBytes = 0;
  parts = 0;
  images = 0;
  fileBytes = 0;
  prefix = '';

  text(text: unknown): void {
    if (typeof text !== 'string') return;
    this.textBytes += Buffer.byteLength(text);
    if (this.prefix.length < longestPrefix) this.prefix += text.slice(0, longestPrefix - this.prefix.length);
  }

  /** A byte at the most is a token at the most: an id of a token counts as one. */
  part(text: unknown): void {
    this.parts++;
    if (Array.isArray(text)) this.textBytes += text.length;
    else this.text(text);
  }

  /** @param data base64, or a URL that holds it */
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
