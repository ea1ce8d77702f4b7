import { isRecord, type Json } from '../../util/json.ts';
import { parseExact } from '../core/json.ts';

/**
 * Parses the arguments of a call.
 * @param fallback used where the arguments are not an object, because the wire requires one
 */
export function parseToolInput(text: string, fallback: Json = { invalid_json: text }): Json {
  if (text.trim() === '') return {};
  try {
    const value = parseExact(text);
    if (isRecord(value)) return value;
  } catch {
    // Truncated by the token limit, or invalid.
  }
  return fallback;
}
