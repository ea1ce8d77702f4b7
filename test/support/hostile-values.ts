/** Takes an entry away. */
export const nothing = Symbol('nothing');

const each = (value: unknown): readonly unknown[] => Array.from({ length: 64 }, () => value);

const common = [
  nothing,
  0,
  -1,
  1,
  2,
  3,
  0.5,
  1e9,
  2 ** 31,
  2 ** 53,
  1e300,
  'x',
  '',
  true,
  false,
  [],
] as const;

/** Hostile values for a number, or a list of numbers, in the metadata of a model file. */
export const hostileNumbers: readonly unknown[] = [
  ...common,
  4,
  7,
  8,
  64,
  1.5,
  1e-300,
  Number.NaN,
  Number.POSITIVE_INFINITY,
  2n ** 63n,
  [0],
  each(-1),
  each(0),
  each(1),
  each(1e9),
  each(Number.NaN),
  each('x'),
  each(true),
  each([1]),
];

/** The same of what a configuration in JSON may hold. */
export const hostileJson: readonly unknown[] = [...common, null, {}, ['x'], '__proto__'];
