/** A JSON object, as parsed: its members can be anything. */
export type Json = Readonly<Record<string, unknown>>;

/** Whether a value is an object with members: neither null nor a list. */
export const isRecord = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
