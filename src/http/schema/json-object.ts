import { z } from 'zod';
import { isRecord, type Json } from '../../util/json.ts';

/** A size limit for a JSON value. Values are object members and array elements. */
export interface Size {
  readonly values: number;
  readonly characters: number;
}
const most: Size = { values: 20_000, characters: 1_000_000 };

/**
 * Any JSON object up to `maxSize`, accepted without further checks, such as a JSON schema or template variables.
 */
export const jsonObject = (error: string) =>
  z
    .custom<Json>(isRecord, { error })
    .refine((value) => !exceeds(value, most), {
      error: `too large: at most ${most.values} values and ${most.characters} characters`,
    })
    .meta({ type: 'object', additionalProperties: true });

/**
 * Returns whether a JSON value exceeds a size limit. Depth is already bounded when the body is read. The walk copies
 * nothing, because there may be millions of values.
 */
export function exceeds(value: unknown, size: Size): boolean {
  const open = [value];
  let values = 0;
  let characters = 0;
  while (open.length > 0) {
    const one = open.pop();
    if (typeof one === 'string') characters += one.length;
    if (Array.isArray(one)) {
      values += one.length;
      if (values <= size.values) for (const inner of one) open.push(inner);
    } else if (typeof one === 'object' && one !== null) {
      const keys = Object.keys(one);
      values += keys.length;
      if (values > size.values) return true;
      for (const key of keys) {
        characters += key.length;
        open.push((one as Json)[key]);
      }
    }
    if (values > size.values || characters > size.characters) return true;
  }
  return false;
}
