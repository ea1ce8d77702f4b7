import { z } from 'zod';
import { isRecord, type Json } from '../../util/json.ts';
import { maxViolations } from '../violations.ts';

/**
 * An array schema that checks the length before the elements and stops at `maxViolations` faults. `z.array` makes an
 * issue for every wrong element: a body with five million wrong elements would block the event loop for ten seconds and
 * take gigabytes.
 * @param options.empty refuses an empty array with this message
 * @param isValid a check that is faster than the element schema, for lists with millions of elements
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
    // An array whose first element is already wrong is reported for its type, not for its length.
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

/** An object schema with arbitrary keys, checked with the same limits as `list`. */
export function dictionary<Value extends z.ZodType>(
  words: { error: string; key: RegExp; keyError: string },
  value: Value,
) {
  const { error, key, keyError } = words;
  const documented = { type: 'object', propertyNames: { type: 'string', pattern: key.source } } as const;
  // `z.record` takes three seconds for a body of 700,000 keys.
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

/** Turns the issues of an element into issues of the container, by prefixing the key to the path. */
const below = (place: PropertyKey, { issues }: z.ZodError, input: unknown) =>
  issues.map((issue) => ({ ...issue, path: [place, ...issue.path], input }) as z.core.$ZodRawIssue);

/**
 * The JSON Schema of a zod schema, for the OpenAPI document. `list` has to pass it explicitly, because zod sees its
 * elements as `unknown`.
 */
export function described(schema: z.ZodType) {
  const { $schema: _, ...definition } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
  return definition;
}
