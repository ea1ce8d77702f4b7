/** Texts and names that the console's pages make: programs, names of repositories, matches of the command palette. */
import { expect, test } from 'vitest';
import { type PaletteEntry, searchEntries } from '../../web/console/shell/palette-search.ts';
import { makeSnippets, type Connection } from '../../web/console/views/home/snippets.ts';
import { pullName } from '../../web/console/views/models/pull-name.ts';

const connection: Connection = {
  origin: 'http://10.0.0.2:8080',
  model: "it's",
  kind: 'generate',
  needsKey: true,
};
const codesOf = (members: Partial<Connection>) =>
  Object.fromEntries(makeSnippets({ ...connection, ...members }).map(({ name, code }) => [name, code]));

test('programs send the bearer token where the host needs it, from the environment', () => {
  const { curl, python, typescript, environment } = codesOf({});
  expect(curl).toContain('-H "Authorization: Bearer $LATHE_TOKEN"');
  expect(curl).toContain(`"model": "it'\\''s"`);
  expect(python).toContain('api_key=os.environ["LATHE_TOKEN"]');
  expect(typescript).toContain('apiKey: process.env.LATHE_TOKEN');
  expect(environment).toContain('OPENAI_API_KEY="$LATHE_TOKEN"');
  for (const code of Object.values(codesOf({ needsKey: false }))) expect(code).not.toContain('LATHE_TOKEN');
});

test('programs use what the model is for', () => {
  const embed = codesOf({ kind: 'embed' });
  expect(embed['curl']).toContain('/v1/embeddings');
  expect(embed['python']).toContain('client.embeddings.create(');
  expect(embed['typescript']).toContain('client.embeddings.create(');
  const rerank = codesOf({ kind: 'rerank' });
  expect(rerank['curl']).toContain('/v1/rerank');
  expect(Object.keys(rerank)).toEqual(['curl', 'environment']);
});

test.each([
  ['owner/name', 'hf.co/owner/name'],
  [' owner/name:Q4_K_M ', 'hf.co/owner/name:Q4_K_M'],
  ['hf.co/owner/name', 'hf.co/owner/name'],
  ['https://huggingface.co/owner/name', 'https://huggingface.co/owner/name'],
  ['hf:owner/name', 'hf:owner/name'],
  ['llama3.2', 'llama3.2'],
])('the repository %j is pulled as %j', (text, name) => {
  expect(pullName(text)).toBe(name);
});

test('the palette finds every word, and puts beginnings of titles first', () => {
  const entry = (title: string, detail = ''): PaletteEntry => ({ group: 'Models', title, detail, href: '/' });
  const entries = [entry('my-llama'), entry('toy', 'llama, Q8_0'), entry('llama-3'), entry('lab')];
  const find = (text: string) => searchEntries(entries, text).map(({ title }) => title);
  expect(find('LLAMA')).toEqual(['llama-3', 'my-llama', 'toy']);
  expect(find('llama q8')).toEqual(['toy']);
  expect(find('models llama-3')).toEqual(['llama-3']);
  expect(find('none')).toEqual([]);
  expect(find('')).toHaveLength(4);
});
