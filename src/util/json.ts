/** A parsed JSON object; its members can have any type. */
export type Json = Readonly<Record<string, unknown>>;

/** True for an object that is neither null nor an array. */
export const isRecord = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Parses JSON; returns `fallback` when the text is not valid JSON. */
export function tryParseJson(text: string, fallback?: unknown): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return fallback;
  }
}

/** True when the text is one complete JSON value; truncated tool-call arguments are not. */
export const isJson = (text: string): boolean => tryParseJson(text) !== undefined;
