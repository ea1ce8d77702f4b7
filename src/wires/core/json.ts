/** For messages: what came, in words. */
export const kindOf = (value: unknown): string => {
  if (value === undefined) return 'nothing';
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'an array';
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`;
};

/** Digits beyond what a double holds, as in ids that count up. */
const longNumber = /\d{16}/;

// Newer than the compiler's library.
const { rawJSON } = JSON as unknown as { rawJSON: (text: string) => unknown };
type Reviver = (this: unknown, key: string, value: unknown) => unknown;

const asWritten = (_key: string, value: unknown, { source }: { source?: string }): unknown =>
  typeof value === 'number' && source !== undefined && String(value) !== source && longNumber.test(source)
    ? rawJSON(source)
    : value;

/** As `JSON.parse`, but numbers that it would round are serialised again as they were written. */
export function parseExact(text: string): unknown {
  return longNumber.test(text) ? JSON.parse(text, asWritten as Reviver) : JSON.parse(text);
}

type Present<Members> = { [Name in keyof Members]?: NonNullable<Members[Name]> };

/** Absent rather than undefined or null. */
export const present = <Members extends object>(members: Members): Present<Members> =>
  Object.fromEntries(
    Object.entries(members).filter(([, value]) => value !== undefined && value !== null),
  ) as Present<Members>;
