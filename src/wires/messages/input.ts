import { isRecord, type Json } from '../../util/json.ts';
import { parseExact } from '../core/json.ts';

/** A call's arguments. @param otherwise what stands for those that are no object: the wire knows objects only */
export function inputOf(text: string, otherwise: Json = { invalid_json: text }): Json {
  if (text.trim() === '') return {};
  try {
    const value = parseExact(text);
    if (isRecord(value)) return value;
  } catch {
    // Cut off by the limit of tokens, or not written well.
  }
  return otherwise;
}
