import type { ImagePart } from './conversation.ts';
import { present } from './json.ts';

const form = /^data:([\w.+-]+\/[\w.+-]+)(?:;[\w-]+=[^;,]*)*;base64,/i;

/** What a data URL in base64 holds; undefined where it is none. */
export function dataUrl(url: string): { readonly mediaType: string; readonly data: string } | undefined {
  // The data may have megabytes: only its head is matched.
  const head = form.exec(url.slice(0, 256));
  return head?.[1] ? { mediaType: head[1].toLowerCase(), data: url.slice(head[0].length) } : undefined;
}

/** Undefined where it is neither a URL of http nor one that holds the image. */
export const imageSource = (url: string) => (/^https?:\/\//i.test(url) ? { url } : dataUrl(url));

/** Plain base64 is a PDF, the one kind that every provider takes; undefined for the URL of another place. */
export const fileSource = (text: string) =>
  dataUrl(text) ??
  (/^\w+:/.test(text.slice(0, 16)) ? undefined : { mediaType: 'application/pdf', data: text });

const details = new Map<unknown, NonNullable<ImagePart['detail']>>([
  ['auto', 'auto'],
  ['low', 'low'],
  ['high', 'high'],
  // Larger than any other provider's.
  ['original', 'high'],
]);
export const detailOf = (detail: unknown) => present({ detail: details.get(detail) });
