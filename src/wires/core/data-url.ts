import type { ImagePart } from './conversation.ts';
import { omitNullish } from './json.ts';

const dataUrlPattern = /^data:([\w.+-]+\/[\w.+-]+)(?:;[\w-]+=[^;,]*)*;base64,/i;

/** Parses a base64 data URL; undefined where the text is not one. */
export function parseDataUrl(url: string): { readonly mediaType: string; readonly data: string } | undefined {
  // The data may be megabytes long, so only its head is matched.
  const head = dataUrlPattern.exec(url.slice(0, 256));
  return head?.[1] ? { mediaType: head[1].toLowerCase(), data: url.slice(head[0].length) } : undefined;
}

/** Parses an http URL or a data URL of an image; undefined for anything else. */
export const parseImageSource = (url: string) => (/^https?:\/\//i.test(url) ? { url } : parseDataUrl(url));

/**
 * Parses the content of a file. Plain base64 is taken for a PDF, the one type that every provider accepts; undefined
 * for any other URL.
 */
export const parseFileSource = (text: string) =>
  parseDataUrl(text) ??
  (/^\w+:/.test(text.slice(0, 16)) ? undefined : { mediaType: 'application/pdf', data: text });

const detailLevels = new Map<unknown, NonNullable<ImagePart['detail']>>([
  ['auto', 'auto'],
  ['low', 'low'],
  ['high', 'high'],
  // No other provider has a level this high.
  ['original', 'high'],
]);
export const toDetail = (detail: unknown) => omitNullish({ detail: detailLevels.get(detail) });
