import { z } from 'zod';
import { isRecord, type Json } from '../../util/json.ts';

/** Members, elements and characters: far more than people write, far less than what holds up others. */
export interface Size {
  readonly values: number;
  readonly characters: number;
}
const most: Size = { values: 20_000, characters: 1_000_000 };

/** Any object of a bounded size, taken as it is: a JSON schema, the variables of a template. */
export const jsonObject = (error: string) =>
  z
    .custom<Json>(isRecord, { error })
    .refine((value) => !exceeds(value, most), {
      error: `too large: at most ${most.values} values and ${most.characters} characters`,
    })
    .meta({ type: 'object', additionalProperties: true });

/** Whether JSON is larger. How deep it is was bounded when the body was read. Nothing is copied: there may be millions of values. */
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
