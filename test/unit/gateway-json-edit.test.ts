import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { editMembers } from '../../src/wires/core/json-edit.ts';

const space = fc.string({ unit: fc.constantFrom(' ', '\n', '\t', '\r'), maxLength: 3 });
/** The same string written with or without escapes. */
const written = (text: string, escaped: boolean) =>
  escaped
    ? `"${Array.from({ length: text.length }, (_, at) => `\\u${text.charCodeAt(at).toString(16).padStart(4, '0')}`).join('')}"`
    : JSON.stringify(text);
const name = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.constantFrom('model', 'stream', 'n', '__proto__', 'a"b', 'c\\', '', '{', '},"x":'),
  },
  // JSON.parse itself, which says what is expected, errs about the others: in Node 26.10 it takes "\u006e" for "\\" where it
  // has read an object of such a shape with that name before.
  { weight: 1, arbitrary: fc.string({ maxLength: 8 }).filter((text) => !text.startsWith('\\')) },
);
const number = fc.constantFrom('1.0', '-0', '12345678901234567890', '1e400', '1E-7', '0.1000', '-0.0e+0');
const value: fc.Arbitrary<string> = fc.letrec<{ value: string; list: string; object: string }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    number,
    fc.constantFrom('true', 'false', 'null', '"\\\\"', '"\\""', '"\\\\\\""', '"\\/"', '[]', '{}', '"\ud800"'),
    fc.string().map((text) => JSON.stringify(text)),
    tie('list'),
    tie('object'),
  ),
  list: fc
    .tuple(fc.array(tie('value'), { maxLength: 3 }), space)
    .map(([all, gap]) => `[${gap}${all.join(`${gap},`)}${gap}]`),
  object: fc
    .tuple(fc.array(fc.tuple(fc.string(), tie('value')), { maxLength: 3 }), space)
    .map(
      ([all, gap]) =>
        `{${gap}${all.map(([key, inner]) => `${JSON.stringify(key)}${gap}:${inner}`).join(`,${gap}`)}${gap}}`,
    ),
})).value;

const member = fc.record({
  before: space,
  name,
  escaped: fc.boolean(),
  colon: fc.tuple(space, space).map(([left, right]) => `${left}:${right}`),
  value,
  after: space,
});
const edits = fc.dictionary(name, fc.option(fc.jsonValue({ maxDepth: 2 }), { nil: undefined, freq: 3 }), {
  maxKeys: 4,
  noNullPrototype: true,
});

describe('editing the members of a JSON text', () => {
  it('distinguishes names that begin with a backslash from names with escapes', () => {
    const text = String.raw`{"\\": 1, "\u006e": 2, "\\u006e": 3}`;
    expect(editMembers(text, { n: 4 })).toBe(String.raw`{"\\": 1, "\u006e": 4, "\\u006e": 3}`);
    expect(editMembers(text, { '\\': 5 })).toBe(String.raw`{"\\": 5, "\u006e": 2, "\\u006e": 3}`);
  });

  it('returns the edited object and every untouched byte, for any spacing and escapes', () => {
    fc.assert(
      fc.property(space, fc.array(member, { maxLength: 6 }), space, edits, (head, members, tail, changes) => {
        const text = `${head}{${
          members.length === 0
            ? ' '
            : members
                .map(
                  (each) =>
                    each.before + written(each.name, each.escaped) + each.colon + each.value + each.after,
                )
                .join(',')
        }}${tail}`;
        const edited = editMembers(text, changes);

        const expected = new Map(Object.entries(JSON.parse(text) as object));
        for (const [key, change] of Object.entries(changes)) {
          if (change === undefined) expected.delete(key);
          else expected.set(key, JSON.parse(JSON.stringify(change)));
        }
        const found = new Map(Object.entries(JSON.parse(edited) as object));
        expect(found).toEqual(expected);

        const last = new Map(members.map((each, place) => [each.name, place]));
        const untouched = members.filter(
          (each, place) => last.get(each.name) === place && !Object.hasOwn(changes, each.name),
        );
        let from = 0;
        for (const each of untouched) {
          const bytes = written(each.name, each.escaped) + each.colon + each.value;
          const at = edited.indexOf(bytes, from);
          expect(at).toBeGreaterThanOrEqual(0);
          from = at + bytes.length;
        }
        if (last.size === members.length && Object.keys(changes).length === 0) expect(edited).toBe(text);
      }),
      { numRuns: 2000 },
    );
  });

  it('leaves spaces, order and numbers as they are', () => {
    const text = '{ "temperature" : 1.0,\n  "model":"a" , "seed": 12345678901234567890 }\n';
    expect(editMembers(text, { model: 'b', n: 2 })).toBe(
      '{ "temperature" : 1.0,\n  "model":"b" , "seed": 12345678901234567890,"n":2 }\n',
    );
    expect(editMembers(text, { temperature: undefined })).toBe(
      '{ "model":"a" , "seed": 12345678901234567890 }\n',
    );
    expect(editMembers(text, { seed: undefined })).toBe('{ "temperature" : 1.0,\n  "model":"a" }\n');
    expect(editMembers('{}', { model: 'a', n: 1 })).toBe('{"model":"a","n":1}');
  });

  it('keeps one of several members with a name, so that the provider reads the one that was checked', () => {
    const text = '{"model":"dear","\\u006dodel":"cheap","n":9,"n":1}';
    expect(editMembers(text, {})).toBe('{"\\u006dodel":"cheap","n":1}');
    expect(editMembers(text, { model: 'x' })).toBe('{"\\u006dodel":"x","n":1}');
  });

  it('reads 30 MB of quotes, backslashes and nested lists', () => {
    const parts = [
      `"${'\\\\'.repeat(5_000_000)}"`,
      `"${'\\"'.repeat(5_000_000)}"`,
      `${'['.repeat(1_000_000)}${']'.repeat(1_000_000)}`,
      `[${'1,'.repeat(4_000_000)}1]`,
    ];
    const text = `{"model":"a","x":[${parts.join(',')}],"stream":true}`;
    expect(text.length).toBeGreaterThan(30_000_000);
    const edited = editMembers(text, { model: 'b', stream: undefined });
    expect(edited.startsWith('{"model":"b","x":[')).toBe(true);
    expect(edited.length).toBe(text.length - ',"stream":true'.length);
  });

  it('refuses text that is not an object', () => {
    expect(() => editMembers('[1]', {})).toThrow(/object/);
    expect(() => editMembers('{"a":"b', {})).toThrow(/does not end/);
    expect(() => editMembers('{"a":[1', {})).toThrow(/ends within/);
  });
});
