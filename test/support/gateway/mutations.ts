import fc from 'fast-check';

type Path = readonly (string | number)[];

const strange: readonly unknown[] = [
  null,
  true,
  0,
  -1,
  1.5,
  1e308,
  2 ** 53,
  '',
  'x',
  '\u0000',
  '\ud800',
  '__proto__',
  'data:,',
  'data:image/png;base64,%%%',
  'http://169.254.169.254/',
  '{"a":',
  'x'.repeat(20_000),
  [],
  [null],
  [[[]]],
  {},
  { type: 'text' },
  { type: null },
  { type: 'constructor', role: 'toString', content: {} },
  JSON.parse('{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}'),
];
const names = [
  'type',
  'role',
  'content',
  'id',
  'name',
  'text',
  'function',
  'source',
  'tool_calls',
  '__proto__',
  'constructor',
  '',
];

function pathsOf(value: unknown, at: Path = []): Path[] {
  if (typeof value !== 'object' || value === null) return [at];
  return [at, ...Object.entries(value).flatMap(([name, each]) => pathsOf(each, [...at, name]))];
}

type Edit = {
  readonly place: number;
  readonly value: unknown;
  readonly name: string;
  readonly kind: 'set' | 'drop' | 'add' | 'repeat';
};

function edited(body: unknown, { place, value, name, kind }: Edit): unknown {
  const paths = pathsOf(body).filter((path) => path.length > 0);
  const path = paths[place % Math.max(1, paths.length)];
  if (path === undefined) return body;
  const copy = structuredClone(body);
  let parent = copy as Record<string | number, unknown>;
  for (const step of path.slice(0, -1)) parent = parent[step] as typeof parent;
  const last = path.at(-1) ?? '';
  const put = (into: object, key: string | number, what: unknown) =>
    Object.defineProperty(into, key, { value: what, enumerable: true, configurable: true, writable: true });
  const old = parent[last];
  if (kind === 'drop') delete parent[last];
  else if (kind === 'set') put(parent, last, value);
  else if (kind === 'repeat') put(parent, last, [old, old, value]);
  else if (typeof old === 'object' && old !== null && !Array.isArray(old)) put(old, name, value);
  else put(parent, Array.isArray(parent) ? last : name, value);
  return copy;
}

/** Bodies that differ from a valid one in a few places, like mistakes of clients and attacks. */
export const mutated = (body: object): fc.Arbitrary<unknown> =>
  fc
    .array(
      fc.record({
        place: fc.nat(1000),
        value: fc.oneof(fc.constantFrom(...strange), fc.jsonValue()),
        name: fc.constantFrom(...names),
        kind: fc.constantFrom('set', 'set', 'drop', 'add', 'repeat'),
      }),
      { minLength: 1, maxLength: 3 },
    )
    .map((edits) => edits.reduce<unknown>((one, edit) => edited(one, edit), body));
