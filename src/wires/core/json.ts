/** Describes the type of a value for error messages. */
export const describeType = (value: unknown): string => {
  if (value === undefined) return 'nothing';
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'an array';
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`;
};

/** Integers with more digits than a double represents exactly, such as sequential ids. */
const longNumber = /\d{16}/;

// Not yet in the compiler's standard library types.
const { rawJSON, isRawJSON } = JSON as unknown as {
  rawJSON: (text: string) => unknown;
  isRawJSON: (value: unknown) => boolean;
};
type Reviver = (this: unknown, key: string, value: unknown) => unknown;

const keepLongNumbers = (_key: string, value: unknown, { source }: { source?: string }): unknown =>
  typeof value === 'number' && source !== undefined && String(value) !== source && longNumber.test(source)
    ? rawJSON(source)
    : value;

/** Like `JSON.parse`, but numbers that a double would round are serialized again as they were written. */
export function parseExact(text: string): unknown {
  return longNumber.test(text) ? JSON.parse(text, keepLongNumbers as Reviver) : JSON.parse(text);
}

/** Whether a value that `parseExact` returned is a long number. */
export const isLongNumber = (value: unknown): boolean => isRawJSON(value);

type OmitNullish<Members> = { [Name in keyof Members]?: NonNullable<Members[Name]> };

/** Omits members that are undefined or null. */
export const omitNullish = <Members extends object>(members: Members): OmitNullish<Members> =>
  Object.fromEntries(
    Object.entries(members).filter(([, value]) => value !== undefined && value !== null),
  ) as OmitNullish<Members>;
