import { z } from 'zod';
import { isRecord, type Json } from '../../util/json.ts';
import { maxViolations } from '../violations.ts';

/**
 * An array schema that checks the length before the elements and stops at `maxViolations` faults. `z.array` makes an
 * issue for every wrong element: a body with five million wrong elements would block the event loop for ten seconds and
 * take gigabytes.
 * @param options.empty refuses an empty array with this message
 * @param options.max the greatest length, and the message for a greater one, which may state the array's
 * @param isValid a check that is faster than the element schema, for lists with millions of elements
 */
export function list<Element extends z.ZodType>(
  element: Element,
  options: {
    error: string;
    empty?: string;
    max?: { count: number; error: string | ((count: number) => string) };
  },
  isValid?: (value: unknown) => value is z.output<Element>,
) {
  const { error, empty, max } = options;
  let array = z.array(z.unknown(), { error });
  if (empty !== undefined) array = array.min(1, empty);
  const metadata = { items: toJsonSchema(element), ...(max ? { maxItems: max.count } : {}) };
  return array.meta(metadata).transform((values, context) => {
    const checked: z.output<Element>[] = [];
    // An array whose first element is already wrong is reported for its type, not for its length.
    if (max && values.length > max.count && element.safeParse(values[0]).success) {
      const limit = { code: 'too_big', origin: 'array', maximum: max.count, inclusive: true } as const;
      const message = typeof max.error === 'string' ? max.error : max.error(values.length);
      context.issues.push({ ...limit, message, input: values });
      return checked;
    }
    for (const [index, value] of values.entries()) {
      if (isValid?.(value)) {
        checked.push(value);
        continue;
      }
      const result = element.safeParse(value);
      if (result.success) checked.push(result.data);
      else context.issues.push(...nestIssues(index, result.error, value));
      if (context.issues.length > maxViolations) break;
    }
    return checked;
  });
}

/** An object schema with arbitrary keys, checked with the same limits as `list`. */
export function dictionary<Value extends z.ZodType>(
  options: { error: string; key: RegExp; keyError: string },
  value: Value,
) {
  const { error, key, keyError } = options;
  const metadata = { type: 'object', propertyNames: { type: 'string', pattern: key.source } } as const;
  // `z.record` takes three seconds for a body of 700,000 keys.
  return z
    .custom<Json>(isRecord, { error })
    .meta({ ...metadata, additionalProperties: toJsonSchema(value) })
    .transform((values, context) => {
      const checked: Record<string, z.output<Value>> = {};
      for (const name of Object.keys(values)) {
        const memberValue = values[name];
        const result = value.safeParse(memberValue);
        if (!key.test(name))
          context.issues.push({ code: 'custom', message: keyError, path: [name], input: memberValue });
        else if (result.success) checked[name] = result.data;
        else context.issues.push(...nestIssues(name, result.error, memberValue));
        if (context.issues.length > maxViolations) break;
      }
      return checked;
    });
}

/** Turns the issues of an element into issues of the container, by prefixing the key to the path. */
const nestIssues = (key: PropertyKey, { issues }: z.ZodError, input: unknown) =>
  issues.map((issue) => ({ ...issue, path: [key, ...issue.path], input }) as z.core.$ZodRawIssue);

/**
 * The JSON Schema of a zod schema, for the OpenAPI document. `list` has to pass it explicitly, because zod sees its
 * elements as `unknown`.
 */
export function toJsonSchema(schema: z.ZodType) {
  const { $schema: _, ...definition } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
  return definition;
}
