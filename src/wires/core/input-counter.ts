import type { RequestFacts } from './wire.ts';

/** Length of the prompt prefix by which a pool selects the host that may have it cached. */
const maxPrefixLength = 4096;
/**
 * Content that the provider fetches by reference has no known size. A nonzero file size makes the input bound the whole
 * context window.
 */
export const unknownSizeBytes = 1;

/** Counts the input of a request, to bound its tokens. */
export class InputCounter {
  textBytes = 0;
  parts = 0;
  images = 0;
  fileBytes = 0;
  prefix = '';

  /** @param text counted where it is a string */
  addText(text: unknown): void {
    if (typeof text !== 'string') return;
    this.addBytes(text);
    if (this.prefix.length < maxPrefixLength)
      this.prefix += text.slice(0, maxPrefixLength - this.prefix.length);
  }

  /** Counts text that is not part of the prompt prefix. */
  addBytes(text: string): void {
    this.textBytes += Buffer.byteLength(text);
  }

  /** @param text a string, or token ids; a token is at least one byte of text, so an id counts as one byte */
  addPart(text: unknown): void {
    this.parts++;
    if (Array.isArray(text)) this.textBytes += text.length;
    else this.addText(text);
  }

  /** @param data base64 or a data URL; anything else is not counted */
  addFile(data: unknown): void {
    if (typeof data !== 'string') return;
    const start = data.startsWith('data:') ? data.indexOf(',') + 1 : 0;
    this.fileBytes += Math.ceil(((data.length - start) * 3) / 4);
  }

  get counts(): Pick<RequestFacts, 'textBytes' | 'parts' | 'images' | 'fileBytes' | 'prefix'> {
    const { textBytes, parts, images, fileBytes, prefix } = this;
    return { textBytes, parts, images, fileBytes, prefix };
  }
}
