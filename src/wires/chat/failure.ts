import { isRecord, type Json } from '../../util/json.ts';
import { providerFault } from '../core/provider-faults.ts';
import type { UpstreamWire } from '../core/wire.ts';
import { errorFields } from './reader.ts';

/** Classifies an OpenAI error body, or another body in its place. */
export const classifyFailure: UpstreamWire['failure'] = (status, text, headers) =>
  providerFault(status, readErrorFields(text), headers);

/** Reads the error members of a body that is not a completion. */
export function readErrorFields(text: string): Json {
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
  const fields = errorFields(first);
  const message = readMessage(fields);
  return { ...fields, message: appendTokenCounts(message, fields) };
}

/** Reads the message. Mistral and FastAPI list violations in `detail`, each with its location. */
function readMessage(fields: Json): string {
  const { message, detail, msg } = fields;
  if (typeof message === 'string' && message !== '') return message;
  if (isRecord(message)) return readMessage(message);
  const list = Array.isArray(message) ? message : detail;
  if (typeof list === 'string') return list;
  if (Array.isArray(list)) {
    return list
      .filter(isRecord)
      .map(({ loc, msg: what }) => {
        const location = Array.isArray(loc) ? loc.filter((step) => step !== 'body').join('.') : '';
        return `${location}${location === '' ? '' : ': '}${String(what)}`;
      })
      .join('; ');
  }
  return typeof msg === 'string' ? msg : '';
}

/** llama.cpp reports token counts in separate members. */
function appendTokenCounts(
  message: string,
  { n_prompt_tokens: promptTokens, n_ctx: contextLength }: Json,
): string {
  if (
    typeof promptTokens !== 'number' ||
    typeof contextLength !== 'number' ||
    message.includes(String(promptTokens))
  )
    return message;
  return `${message} (${promptTokens} tokens, the context has ${contextLength})`;
}
