import { expect, it } from 'vitest';
import { AnswerIdentity } from '../../src/wires/core/answer-identity.ts';

/** Returns whether the last chunk indicates another answer; none before it may. */
function isOther(...chunks: readonly (readonly [id: unknown, begins?: boolean])[]): boolean {
  const identity = new AnswerIdentity();
  const shown = chunks.map(([id, begins = false]) => identity.isOther(id, begins));
  expect(shown.slice(0, -1)).not.toContain(true);
  return shown.at(-1) === true;
}

it('an answer that begins with a different id is another answer', () => {
  expect(isOther(['a', true], ['a'], ['b', true])).toBe(true);
  expect(isOther(['a', true], ['a', true], ['b', true])).toBe(true);
  // The first one broke off after one chunk: the second one shows that ids stay.
  expect(isOther(['a', true], ['b', true], ['b'])).toBe(true);
  expect(isOther(['a', true], ['a'], ['b'], ['b', true])).toBe(true);
});

it('ids that change with each chunk, or that are absent, are ignored', () => {
  expect(isOther(['a', true], ['b', true], ['c', true], ['d', true])).toBe(false);
  expect(isOther([undefined, true], [undefined], [undefined, true])).toBe(false);
  // Azure's first chunk has an empty one.
  expect(isOther(['', false], ['a', true], ['a'])).toBe(false);
});

it('a chunk with another id that does not begin an answer belongs to the same answer', () => {
  expect(isOther(['a', true], ['a'], ['usage'])).toBe(false);
  expect(isOther(['prelude'], ['prelude'], ['a', true], ['a'])).toBe(false);
});
