/** Texts of the pages, from their sources: empty states, and the labels of buttons, fields, panels and columns. */
import { globSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

const sources = globSync('web/{console,gateway,demo,ui}/**/*.tsx')
  .toSorted()
  .map((file) => [file, readFileSync(file, 'utf8')] as const);

const member = /\b(?:title|label|head|caption|lead|action)(?:=|: )(?:"([^"\n]+)"|'([^'\n]+)')/g;
const button = /<Button\b[^<]*>\s*([A-Z][^<{]*?)\s*<\/Button>/g;
const labels = sources.flatMap(([file, source]) =>
  [...source.matchAll(member), ...source.matchAll(button)].map((found) => ({
    file,
    text: (found[1] ?? found[2] ?? '').replaceAll(/\s+/g, ' '),
  })),
);

it('an empty state says what to do next', () => {
  const states = sources.flatMap(([file, source]) =>
    [...source.matchAll(/<Empty\b.*?(\/>|<\/Empty>)/gs)].map(([state, end]) => ({ file, state, end })),
  );
  expect(states.length).toBeGreaterThan(50);
  // Where the attributes end with the element, there is no advice.
  expect(states.filter(({ state, end }) => end === '/>' && !state.includes('>\n'))).toEqual([]);
});

it('labels are in sentence case, and no two differ by case alone', () => {
  expect(labels.length).toBeGreaterThan(300);
  /** Names that have capitals of their own. */
  const names = /\b(?:Markdown|OpenAI|Anthropic|Ollama|TypeScript|Python|Ctrl|Escape|Tab|MiB|WebGPU)\b/g;
  const inTitleCase = labels.filter(({ text }) =>
    /^[A-Z][a-z]+ (?:[\w-]+ )*[A-Z][a-z]/.test(text.replaceAll(names, 'x').replaceAll(/[.:?] [A-Z]/g, ' x')),
  );
  expect(inTitleCase).toEqual([]);
  const spellings = new Map<string, Set<string>>();
  for (const { text } of labels)
    spellings.set(text.toLowerCase(), (spellings.get(text.toLowerCase()) ?? new Set()).add(text));
  const mixed = [...spellings.values()].filter(({ size }) => size > 1).map((texts) => [...texts]);
  expect(mixed).toEqual([]);
});
