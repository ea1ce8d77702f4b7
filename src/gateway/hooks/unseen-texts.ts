import { isRecord, type Json } from '../../util/json.ts';
import { SseParser } from '../../wires/core/sse-parser.ts';
import { findTexts, isBase64 } from './request-texts.ts';
import type { HookText } from './types.ts';

/** Members of answers on all wires that hold no text of the answer. */
const envelope: ReadonlySet<string> = new Set([
  'usage',
  'logprobs',
  'timings',
  'system_fingerprint',
  'obfuscation',
  'provider',
  'container_id',
  'format',
  'finish_reason',
  'native_finish_reason',
  'stop_reason',
  'stop_sequence',
  'encrypted_index',
]);
/** Members that may hold bytes of audio and images. */
const media: ReadonlySet<string | undefined> = new Set([
  'data',
  'b64_json',
  'result',
  'partial_image_b64',
  'url',
]);

/**
 * The texts of an answer that its events do not have, because only its provider's wire does: transcripts of audio, calls of
 * custom tools, citations, members that the gateway does not know. Pieces of a text in the frames of a stream are joined.
 * @param text the answer as the caller would get it
 * @param seen the texts of its events
 */
export function findUnseenTexts(text: string, isStream: boolean, seen: readonly HookText[]): HookText[] {
  const known = seen.map((one) => `${one.name ?? ''}\n${one.text}`).join('\n');
  const isKnown = (part: string) => known.includes(part) || known.includes(JSON.stringify(part).slice(1, -1));
  const unseen = new Map<string, string>();
  for (const document of isStream ? framesOf(text) : [parse(text)])
    for (const found of findTexts(contentOf(document))) {
      const names = found.path.split('.');
      if (names.some((name) => envelope.has(name))) continue;
      const place = `${placeOf(document, names, isStream)}${found.isName ? ' (names)' : ''}`;
      unseen.set(place, (unseen.get(place) ?? '') + found.text);
    }
  return [...unseen].flatMap(([path, whole]) =>
    whole === '' || isKnown(whole) || (media.has(path.split('.').at(-1)) && isBase64(whole))
      ? []
      : [{ role: 'other', path, text: whole }],
  );
}

function framesOf(text: string): Json[] {
  const parser = new SseParser(Number.POSITIVE_INFINITY);
  return [...parser.push(Buffer.from(text)), ...parser.end()].flatMap(({ data }) =>
    data === '[DONE]' ? [] : [parse(data)],
  );
}

function parse(text: string): Json {
  try {
    const value: unknown = JSON.parse(text);
    return isRecord(value) ? value : { text: value };
  } catch {
    return { text };
  }
}

/** What the model wrote: a response of the Responses wire repeats the request beside it. */
function contentOf({ response, ...rest }: Json): Json {
  if (isRecord(response)) return { ...rest, response: { output: response['output'] } };
  return 'output' in rest && 'object' in rest ? { output: rest['output'] } : rest;
}

/** Where a text is: the kind of the frame, and the path, in which elements of lists have their own index where they name one. */
function placeOf(document: Json, names: readonly string[], isFrame: boolean): string {
  const { type, index, output_index: item } = isFrame ? document : {};
  let holder: unknown = document;
  const path = names.map((name) => {
    const isList = Array.isArray(holder);
    holder = (holder as Json | undefined)?.[name];
    return isList && isRecord(holder) && typeof holder['index'] === 'number' ? String(holder['index']) : name;
  });
  return [type, index, item]
    .filter((one) => typeof one === 'string' || typeof one === 'number')
    .concat(path)
    .join('.');
}
