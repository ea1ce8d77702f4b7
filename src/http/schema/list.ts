import { z } from 'zod';
import { isRecord, type Json } from '../../util/json.ts';
import { maxViolations } from '../violations.ts';

/**
 * An array whose length is checked before its elements, and these only until enough faults are found.
 * `z.array` makes an issue of every wrong element: a body of five million of them would hold up everybody else for
 * ten seconds and take gigabytes.
 * @param words.empty refuses an empty array with this text
 * @param fits where there may be millions of elements: says faster than the schema that one is right
 */
export function list<Element extends z.ZodType>(
  element: Element,
  words: { error: string; empty?: string; most?: { count: number; error: string } },
  fits?: (value: unknown) => value is z.output<Element>,
) {
  const { error, empty, most } = words;
  let array = z.array(z.unknown(), { error });
  if (empty !== undefined) array = array.min(1, empty);
  const documented = { items: described(element), ...(most ? { maxItems: most.count } : {}) };
  return array.meta(documented).transform((values, context) => {
    const checked: z.output<Element>[] = [];
    // An array that begins with something else is no such list, and its length says nothing.
    if (most && values.length > most.count && element.safeParse(values[0]).success) {
      const bound = { code: 'too_big', origin: 'array', maximum: most.count, inclusive: true } as const;
      context.issues.push({ ...bound, message: most.error, input: values });
      return checked;
    }
    for (const [index, value] of values.entries()) {
      if (fits?.(value)) {
        checked.push(value);
        continue;
      }
      const result = element.safeParse(value);
      if (result.success) checked.push(result.data);
      else context.issues.push(...below(index, result.error, value));
      if (context.issues.length > maxViolations) break;
    }
    return checked;
  });
}

/** An object of any keys, checked like a `list`. */
export function dictionary<Value extends z.ZodType>(
  words: { error: string; key: RegExp; keyError: string },
  value: Value,
) {
  const { error, key, keyError } = words;
  const documented = { type: 'object', propertyNames: { type: 'string', pattern: key.source } } as const;
  // Not `z.record`, which takes three seconds for a body of 700,000 keys.
  return z
    .custom<Json>(isRecord, { error })
    .meta({ ...documented, additionalProperties: described(value) })
    .transform((values, context) => {
      const checked: Record<string, z.output<Value>> = {};
      for (const name of Object.keys(values)) {
        const given = values[name];
        const result = value.safeParse(given);
        if (!key.test(name))
          context.issues.push({ code: 'custom', message: keyError, path: [name], input: given });
        else if (result.success) checked[name] = result.data;
        else context.issues.push(...below(name, result.error, given));
        if (context.issues.length > maxViolations) break;
      }
      return checked;
    });
}

/** An element's issues as issues of the whole. */
const below = (place: PropertyKey, { issues }: z.ZodError, input: unknown) =>
  issues.map((issue) => ({ ...issue, path: [place, ...issue.path], input }) as z.core.$ZodRawIssue);

/** What the OpenAPI document says of an element; zod itself sees only `unknown`. */
export function described(schema: z.ZodType) {
  const { $schema: _, ...definition } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
  return definition;
}
