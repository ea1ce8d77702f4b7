/** The design system: colors, sizes of text, space and corners come from web/ui/styles/tokens.css. */
import { globSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

const tokens = readFileSync('web/ui/styles/tokens.css', 'utf8');
const files = globSync('web/**/*.css').filter((file) => !file.endsWith('styles/tokens.css'));
const declarations = files.flatMap((file) =>
  [...readFileSync(file, 'utf8').matchAll(/^\s*([\w-]+):\s*([^;{}]+);/gm)].map(
    ([, property = '', value = '']) => ({ file, property, value }),
  ),
);
const those = (property: RegExp, value: RegExp) =>
  declarations.filter((one) => property.test(one.property) && value.test(one.value));

it('no file but the tokens has a color', () => {
  expect(declarations.length).toBeGreaterThan(1000);
  expect(those(/./, /#[\da-f]{3,8}\b|\b(?:rgb|hsl|oklch)a?\(/i)).toEqual([]);
});

it('sizes of text, space and corners are tokens; hairlines, circles and sizes relative to the text are not', () => {
  expect(those(/^font-size$/, /\d(?:px|rem)/)).toEqual([]);
  expect(those(/gap$|^padding|^margin/, /\b(?!1px)\d+px/)).toEqual([]);
  expect(those(/^border-radius$/, /\dpx/)).toEqual([]);
});

it('every token that a style uses is defined: by the tokens, or by the component', () => {
  const sources = globSync('web/**/*.{ts,tsx}').map((file) => readFileSync(file, 'utf8'));
  const isDefined = (name: string) =>
    tokens.includes(`${name}:`) || sources.some((source) => source.includes(`'${name}'`));
  const used = new Set(
    declarations.flatMap(({ value }) => [...value.matchAll(/var\((--[\w-]+)/g)].map(([, name = '']) => name)),
  );
  expect([...used].filter((name) => !isDefined(name))).toEqual([]);
});
