import { isRecord, type Json } from '../../util/json.ts';
import { providerFault } from '../core/provider-faults.ts';
import type { UpstreamWire } from '../core/wire.ts';
import { faultWords } from './reader.ts';

/** Of OpenAI's error body and of what others answer in its place. */
export const failureOf: UpstreamWire['failure'] = (status, text, headers) =>
  providerFault(status, wordsIn(text), headers);

/** What a body says that is no completion. */
export function wordsIn(text: string): Json {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    // A proxy's page says nothing to a caller.
    return text.trimStart().startsWith('<') ? {} : { message: text };
  }
  // Google's compatible endpoint wraps its error in an array.
  const [first] = Array.isArray(body) ? (body as unknown[]) : [body];
  if (!isRecord(first)) return typeof first === 'string' ? { message: first } : {};
  const words = faultWords(first);
  const message = messageIn(words);
  return { ...words, message: withCounts(message, words) };
}

/** Mistral and FastAPI list what is wrong in `detail`, with the place of each. */
function messageIn(words: Json): string {
  const { message, detail, msg } = words;
  if (typeof message === 'string' && message !== '') return message;
  if (isRecord(message)) return messageIn(message);
  const listed = Array.isArray(message) ? message : detail;
  if (typeof listed === 'string') return listed;
  if (Array.isArray(listed)) {
    return listed
      .filter(isRecord)
      .map(({ loc, msg: what }) => {
        const place = Array.isArray(loc) ? loc.filter((step) => step !== 'body').join('.') : '';
        return `${place}${place === '' ? '' : ': '}${String(what)}`;
      })
      .join('; ');
  }
  return typeof msg === 'string' ? msg : '';
}

/** llama.cpp counts beside its words. */
function withCounts(message: string, { n_prompt_tokens: asked, n_ctx: window }: Json): string {
  if (typeof asked !== 'number' || typeof window !== 'number' || message.includes(String(asked)))
    return message;
  return `${message} (${asked} tokens, the context has ${window})`;
}
