/** docs/lab-tricks.md lists the tricks of the tests; `WRITE_TABLES=1` writes it. */
import { readFile, writeFile } from 'node:fs/promises';
import { expect, it } from 'vitest';
import { inputTricks } from '../support/lab-input-tricks.ts';
import { fieldTricks, tricks } from '../support/lab-tricks.ts';

function table(heads: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const widths = heads.map((head, n) => Math.max(head.length, ...rows.map((row) => row[n]?.length ?? 0)));
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, n) => cell.padEnd(widths[n] ?? 0)).join(' | ')} |`;
  return [line(heads), line(widths.map((width) => '-'.repeat(width))), ...rows.map(line)];
}

it('every published trick is one of the suite, or has a reason', () => {
  const names = tricks.map(({ name }) => name);
  for (const { here } of fieldTricks)
    if (typeof here !== 'string') expect(names).toEqual(expect.arrayContaining([...here]));
});

const page = new URL('../../docs/lab-tricks.md', import.meta.url);

it('the page lists every trick with what the gate says of it', async () => {
  const rows = tricks.map(({ name, codes, flagged, hangs }) => [
    name,
    `${codes.map((code) => `\`${code}\``).join(', ')}${flagged ? ' (a warning)' : ''}${hangs ? ' (its process is killed)' : ''}`,
  ]);
  const published = fieldTricks.map(({ name, sources, here }) => [
    name,
    sources.join(', '),
    typeof here === 'string' ? here : here.join('; '),
  ]);
  const text = [
    '# Tricks that the gate knows',
    '',
    'Each is a kernel in `test/support/lab-tricks.ts` that computes something else, or only seems to compute. The tests send all of them',
    'through the gate (`test/http/lab-gate-process.test.ts`): it rejects them, or accepts them with a warning where they are correct on',
    'everything that it tried. Written by `WRITE_TABLES=1 npm test -- test/unit/lab-tricks-page.test.ts`. What a bench and a parity run',
    'find beyond the gate is in `test/gpu/lab-bench.test.ts` and `test/gpu/lab-live-parity.test.ts`.',
    '',
    ...table(['a kernel that', 'findings, at least one of'], rows),
    '',
    '## Kernels that are wrong on some inputs of the product',
    '',
    'Stubs with one edit in `test/support/lab-input-tricks.ts`. Every run of the gate has inputs on which they are wrong, so it rejects them',
    'with `wrong_result` or a similar finding.',
    '',
    ...table(
      ['op', 'a kernel that'],
      inputTricks.map(({ op, name }) => [`\`${op}\``, name]),
    ),
    '',
    '## Published lists',
    '',
    'What others found in graders of kernels, and which of the tricks above it is here.',
    '',
    ...table(['trick', 'found by', 'here'], published),
    '',
  ].join('\n');
  if (process.env['WRITE_TABLES'] === '1') await writeFile(page, text);
  expect(await readFile(page, 'utf8')).toBe(text);
});
