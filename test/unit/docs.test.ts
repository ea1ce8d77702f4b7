/** What the documentation quotes is what the repository has. */
import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');

it('docs/add-a-model.md shows a whole file of src/engine/models', () => {
  const page = read('docs/add-a-model.md');
  const blocks = [...page.matchAll(/```ts\n(.*?)```/gs)].map(([, text]) => text);
  const whole = blocks.filter((text) => text?.includes('import '));
  expect(whole).toEqual([read('src/engine/models/smollm3.ts')]);
});

it('docs/testing.md names tests that exist', () => {
  const rows = [...read('docs/testing.md').matchAll(/^\| .+? \| `([\w/.-]+\.test\.ts)`: (.+?) +\|$/gm)];
  expect(rows.length).toBeGreaterThan(20);
  const missing = rows.filter(([, file, title]) => !read(`test/${file}`).includes(title ?? ''));
  expect(missing.map(([row]) => row)).toEqual([]);
});
