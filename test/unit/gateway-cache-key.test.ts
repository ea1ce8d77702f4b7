import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cacheKey, type CacheScope } from '../../src/gateway/cache/cache-key.ts';

const scope: CacheScope = {
  accountId: 'a_1',
  wire: 'chat',
  model: 'chat',
  servedBy: ['one', 'two'],
  headers: { 'anthropic-beta': undefined },
  hooks: [],
};
const keyOf = (body: object, change: Partial<CacheScope> = {}) =>
  cacheKey({ ...scope, ...change }, JSON.stringify(body));
const usual = { model: 'chat', messages: [{ role: 'user', content: 'Hello.' }], temperature: 0 };

/** JSON with the members of every object in another order, and white space. */
const shuffled = (value: unknown, random: (below: number) => number): string => {
  if (Array.isArray(value)) return `[ ${value.map((one) => shuffled(one, random)).join(' , ')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const members = Object.entries(value)
    .map((member) => ({ member, place: random(1e6) }))
    .sort((one, other) => one.place - other.place)
    .map(({ member: [name, inner] }) => `${JSON.stringify(name)} :${shuffled(inner, random)}`);
  return `{${members.join(',\n')} }`;
};

const bodies = fc.dictionary(
  // The ignored members have tests of their own.
  fc
    .string()
    .filter((name) => !/^(?:model|user|safety_identifier|metadata|prompt_cache.*|store|stream)$/.test(name)),
  fc.jsonValue({ maxDepth: 4 }).filter((value) => value !== null),
);

describe('the key of a request in the cache', () => {
  it('does not depend on the order of members and on white space', () => {
    fc.assert(
      fc.property(bodies, fc.infiniteStream(fc.nat()), (body, numbers) => {
        const random = (below: number) => (numbers.next().value as number) % below;
        expect(cacheKey(scope, shuffled(body, random))).toBe(keyOf(body));
      }),
    );
  });

  it('depends on every member, at every depth', () => {
    fc.assert(
      fc.property(bodies, fc.string(), fc.jsonValue(), fc.jsonValue(), (body, name, one, other) => {
        const nested = (value: unknown) => ({ ...body, messages: [{ role: 'user', [`m${name}`]: [value] }] });
        const isSame = sorted(one) === sorted(other);
        expect(keyOf(nested(one)) === keyOf(nested(other))).toBe(isSame);
      }),
    );
  });

  it.each([
    ['temperature', 0, 1],
    ['top_p', 0.1, 0.9],
    ['max_tokens', 10, 20],
    ['n', 1, 2],
    ['stop', ['a'], ['b']],
    ['seed', 1, 2],
    // More digits than a double has.
    ['seed', '9007199254740993', '9007199254740992'],
    ['tools', [], [{ type: 'function', function: { name: 'f' } }]],
    ['response_format', { type: 'text' }, { type: 'json_object' }],
    ['logit_bias', { 1: 1 }, { 1: 2 }],
    ['reasoning_effort', 'low', 'high'],
    ['stream', true, false],
    ['stream_options', { include_usage: true }, { include_usage: false }],
    ['a_member_of_tomorrow', 1, 2],
  ])('tells requests with another %s apart', (name, one, other) => {
    const written = (value: unknown) =>
      cacheKey(
        scope,
        `{"messages":[],"${name}":${typeof value === 'string' && /^\d+$/.test(value) ? value : JSON.stringify(value)}}`,
      );
    expect(written(one)).not.toBe(written(other));
    expect(written(one)).toBe(written(one));
  });

  it('keeps accounts, wires, models, providers and versions of the wire apart', () => {
    const keys = [
      keyOf(usual),
      keyOf(usual, { accountId: 'a_2' }),
      keyOf(usual, { wire: 'completions' }),
      keyOf(usual, { model: 'other' }),
      keyOf(usual, { servedBy: ['one'] }),
      keyOf(usual, { headers: { 'anthropic-beta': 'new' } }),
      keyOf(usual, { hooks: ['policy'] }),
    ];
    expect(new Set(keys).size).toBe(keys.length);
    expect(keyOf(usual, { servedBy: ['two', 'one'] })).toBe(keys[0]);
  });

  it('ignores who the end user is, how the model was named, and what is absent', () => {
    const same = {
      ...usual,
      model: 'auto',
      user: 'u-1',
      metadata: { team: 'x' },
      safety_identifier: 's',
      stop: null,
    };
    expect(keyOf({ ...same, stream: false })).toBe(keyOf(usual));
    const message = { max_tokens: 10, messages: [] };
    expect(keyOf({ ...message, metadata: { user_id: 'u' } }, { wire: 'messages' })).toBe(
      keyOf(message, { wire: 'messages' }),
    );
    // Answers of this wire repeat it.
    expect(keyOf({ input: 'Hi', user: 'u' }, { wire: 'responses' })).not.toBe(
      keyOf({ input: 'Hi' }, { wire: 'responses' }),
    );
  });
});

/** JSON with sorted members. */
const sorted = (value: unknown): string =>
  JSON.stringify(value, (_name, inner: unknown) =>
    typeof inner === 'object' && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([one], [other]) => (one < other ? -1 : 1)))
      : inner,
  );
