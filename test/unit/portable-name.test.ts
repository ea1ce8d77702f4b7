import { describe, expect, it, test } from 'vitest';
import { pathForName } from '../../src/cli/store/model-names.ts';
import { isConfigName } from '../../src/lab/types.ts';
import { parseReference } from '../../src/pull/reference.ts';
import { isPortableName } from '../../src/words/portable-name.ts';

const reserved = [
  'CON',
  'con',
  'aux.x',
  'NUL',
  'nul.tar.gz',
  'prn',
  'COM1',
  'com0',
  'lpt9.json',
  'COM¹',
  'CONIN$',
];
const cutOff = ['a.', 'a ', 'aux .x', '...', ' '];
const forbidden = ['a/b', 'a\\b', 'a:b', 'a*', 'a?', 'a|b', '<a>', '"a"', 'a\0', 'a\n', 'a\ud800', ''];
const fine = [
  'a',
  'console',
  'auxiliary',
  'com',
  'com10',
  'nullable',
  'a.con',
  'lpt',
  'käse',
  '.hidden',
  'a b',
];

describe('a name that becomes a file', () => {
  it.each([...reserved, ...cutOff, ...forbidden])('cannot be %j', (name) => {
    expect(isPortableName(name)).toBe(false);
  });
  it.each(fine)('can be %j', (name) => {
    expect(isPortableName(name)).toBe(true);
  });
});

test.each(['CON', 'aux.x', 'NUL', 'COM1', 'lpt9.v2', 'a.'])('no store takes the name %j', (name) => {
  expect(isConfigName(name)).toBe(false);
  expect(() => pathForName(name)).toThrow('is not a valid model name');
  expect(() => pathForName(`mine/${name}`)).toThrow('is not a valid model name');
  expect(() => pathForName(`mine:${name}`)).toThrow('is not a valid model name');
  expect(parseReference(`${name}/model`)).toBeUndefined();
  expect(parseReference(`owner/${name}`)).toBeUndefined();
});
