import { isRecord, type Json } from '../../util/json.ts';
import { providerFault } from '../core/provider-faults.ts';
import type { UpstreamWire } from '../core/wire.ts';
import { faultWords } from './reader.ts';

/** Classifies an OpenAI error body, or another body in its place. */
export const failureOf: UpstreamWire['failure'] = (status, text, headers) =>
  providerFault(status, wordsIn(text), headers);

/** Reads the error members of a body that is not a completion. */
export function wordsIn(text: string): Json {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    // An HTML page of a proxy contains nothing useful for the caller.
    return text.trimStart().startsWith('<') ? {} : { message: text };
  }
  // Google's compatible endpoint wraps its error in an array.
  const [first] = Array.isArray(body) ? (body as unknown[]) : [body];
  if (!isRecord(first)) return typeof first === 'string' ? { message: first } : {};
  const words = faultWords(first);
  const message = messageIn(words);
  return { ...words, message: withCounts(message, words) };
}

/** Reads the message. Mistral and FastAPI list violations in `detail`, each with its location. */
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

/** llama.cpp reports token counts in separate members. */
function withCounts(message: string, { n_prompt_tokens: asked, n_ctx: window }: Json): string {
  if (typeof asked !== 'number' || typeof window !== 'number' || message.includes(String(asked)))
    return message;
  return `${message} (${asked} tokens, the context has ${window})`;
}
