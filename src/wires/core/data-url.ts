import type { ImagePart } from './conversation.ts';
import { present } from './json.ts';

const form = /^data:([\w.+-]+\/[\w.+-]+)(?:;[\w-]+=[^;,]*)*;base64,/i;

/** Parses a base64 data URL; undefined where the text is not one. */
export function dataUrl(url: string): { readonly mediaType: string; readonly data: string } | undefined {
  // The data may be megabytes long, so only its head is matched.
  const head = form.exec(url.slice(0, 256));
  return head?.[1] ? { mediaType: head[1].toLowerCase(), data: url.slice(head[0].length) } : undefined;
}

/** Parses an http URL or a data URL of an image; undefined for anything else. */
export const imageSource = (url: string) => (/^https?:\/\//i.test(url) ? { url } : dataUrl(url));

/**
 * Parses the content of a file. Plain base64 is taken for a PDF, the one type that every provider accepts; undefined
 * for any other URL.
 */
export const fileSource = (text: string) =>
  dataUrl(text) ??
  (/^\w+:/.test(text.slice(0, 16)) ? undefined : { mediaType: 'application/pdf', data: text });

const details = new Map<unknown, NonNullable<ImagePart['detail']>>([
  ['auto', 'auto'],
  ['low', 'low'],
  ['high', 'high'],
  // No other provider has a level this high.
  ['original', 'high'],
]);
export const detailOf = (detail: unknown) => present({ detail: details.get(detail) });
