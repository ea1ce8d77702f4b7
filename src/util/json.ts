/** A JSON object, as parsed: its members can be anything. */
export type Json = Readonly<Record<string, unknown>>;

/** Whether a value is an object with members: neither null nor a list. */
export const isRecord = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** What a text says; `otherwise` where it is no JSON. */
export function parsedJson(text: string, otherwise?: unknown): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return otherwise;
  }
}

/** Whether a text is one JSON value, whole: a call's arguments that were cut off are none. */
export const isJson = (text: string): boolean => parsedJson(text) !== undefined;
