type Expected = Readonly<Record<string, keyof typeof names>>;

const isOf = {
  text: (value: unknown) => typeof value === 'string',
  number: (value: unknown) => typeof value === 'number',
  signal: (value: unknown) => value instanceof AbortSignal,
  function: (value: unknown) => typeof value === 'function',
} as const;
const names = {
  text: 'a text',
  number: 'a number',
  signal: 'an AbortSignal',
  function: 'a function',
} as const;

const shown = (value: unknown): string =>
  typeof value === 'string' ? value : (JSON.stringify(value) ?? typeof value);

/** Programs in plain JavaScript pass anything. @throws TypeError for what is no text */
export function checkText(method: string, name: string, value: unknown): void {
  if (typeof value !== 'string')
    throw new TypeError(`${method}: ${name}: expected a text, got ${shown(value)}`);
}

/** @throws TypeError for anything but an object with these members: what is not known is not ignored */
export function checkOptions(method: string, value: unknown, expected: Expected): void {
  const members = Object.keys(expected);
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new TypeError(`${method}: expected an object with ${members.join(', ')}, got ${shown(value)}`);
  for (const [name, member] of Object.entries(value)) {
    const kind = Object.hasOwn(expected, name) ? expected[name] : undefined;
    if (kind === undefined)
      throw new TypeError(`${method}: there is no option ${name}; expected ${members.join(', ')}`);
    if (member !== undefined && !isOf[kind](member))
      throw new TypeError(`${method}: ${name}: expected ${names[kind]}, got ${shown(member)}`);
  }
}
