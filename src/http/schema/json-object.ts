import { z } from 'zod';
import { isRecord, type Json } from '../../util/json.ts';

/** A size limit for a JSON value. Values are object members and array elements. */
export interface JsonSize {
  readonly values: number;
  readonly characters: number;
}
const maxSize: JsonSize = { values: 20_000, characters: 1_000_000 };

/**
 * Any JSON object up to `maxSize`, accepted without further checks, such as a JSON schema or template variables.
 */
export const jsonObject = (error: string) =>
  z
    .custom<Json>(isRecord, { error })
    .refine((value) => !exceedsSize(value, maxSize), {
      error: `too large: at most ${maxSize.values} values and ${maxSize.characters} characters`,
    })
    .meta({ type: 'object', additionalProperties: true });

/**
 * Returns whether a JSON value exceeds a size limit. Depth is already bounded when the body is read. The walk copies
 * nothing, because there may be millions of values.
 */
export function exceedsSize(value: unknown, size: JsonSize): boolean {
  const stack = [value];
  let values = 0;
  let characters = 0;
  while (stack.length > 0) {
    const current = stack.pop();
    if (typeof current === 'string') characters += current.length;
    if (Array.isArray(current)) {
      values += current.length;
      if (values <= size.values) for (const child of current) stack.push(child);
    } else if (typeof current === 'object' && current !== null) {
      const keys = Object.keys(current);
      values += keys.length;
      if (values > size.values) return true;
      for (const key of keys) {
        characters += key.length;
        stack.push((current as Json)[key]);
      }
    }
    if (values > size.values || characters > size.characters) return true;
  }
  return false;
}
