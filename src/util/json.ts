/** A JSON object, as parsed: its members can be anything. */
export type Json = Readonly<Record<string, unknown>>;

/** Whether a value is an object with members: neither null nor a list. */
export const isRecord = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Whether a text is one JSON value, whole: a call's arguments that were cut off are none. */
export function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
