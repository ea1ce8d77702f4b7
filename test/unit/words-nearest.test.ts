import fc from 'fast-check';
import { expect, test } from 'vitest';
import { optionNames } from '../../src/config/options.ts';
import { didYouMean, nearestWord } from '../../src/words/nearest.ts';

test('one slip is found, another word is not', () => {
  fc.assert(
    fc.property(fc.constantFrom(...optionNames), fc.nat(), (name, at) => {
      const slip = name.slice(0, at % name.length) + name.slice((at % name.length) + 1);
      if (!(optionNames as string[]).includes(slip) && slip.length > 2)
        expect(nearestWord(slip, [name])).toBe(name);
    }),
  );
  expect(nearestWord('zzzzzz', optionNames)).toBeUndefined();
});

test.each([
  ['letters that changed places', 'fs_raed', 'fs_read'],
  ['a letter too many', 'fs_reaad', 'fs_read'],
  ['a letter too few', 'fs_rad', 'fs_read'],
  ['another letter', 'fs_resd', 'fs_read'],
  ['other letters in the other case', 'FS_READ', 'fs_read'],
  ['the beginning of it', 'run', 'run_command'],
  ['a beginning that is too short', 'ru', undefined],
  ['a third of the letters', 'abcxyzghi', 'abcdefghi'],
  ['more than a third of the letters', 'abcwxyzhi', undefined],
  ['one of two letters', 'ax', 'ab'],
  ['nothing', '', undefined],
  ['a very long word', `fs_read${'x'.repeat(1_000_000)}`, undefined],
])('%s', (_, word, meant) => {
  expect(nearestWord(word, ['fs_read', 'run_command', 'abcdefghi', 'ab'])).toBe(meant);
});

test('of several the nearest, and of those as near the first', () => {
  expect(nearestWord('fs_reat', ['fs_rest_', 'fs_read', 'fs_real'])).toBe('fs_read');
  expect(nearestWord('fs_read', ['fs_reads', 'FS_READ'])).toBe('FS_READ');
  expect(nearestWord('x', [])).toBeUndefined();
});

test('what is near does not depend on what else there is', () => {
  const word = fc.string({ unit: fc.constantFrom('a', 'b', 'c'), maxLength: 8 });
  fc.assert(
    fc.property(word, fc.array(word, { maxLength: 6 }), (typed, known) => {
      const near = nearestWord(typed, known);
      if (near === undefined) expect(known.filter((one) => nearestWord(typed, [one]))).toEqual([]);
      else expect(nearestWord(typed, [near])).toBe(near);
    }),
  );
});

test('a hint shows the name as its reader writes it, or says nothing', () => {
  expect(didYouMean('prot', ['port'], (name) => `--${name}`)).toBe(' (did you mean --port?)');
  expect(didYouMean('zzzz', ['port'], (name) => `--${name}`)).toBe('');
});
