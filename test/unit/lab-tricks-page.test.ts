/** docs/lab-tricks.md lists the tricks of the tests; `WRITE_TABLES=1` writes it. */
import { readFile, writeFile } from 'node:fs/promises';
import { expect, it } from 'vitest';
import { tricks } from '../support/lab-tricks.ts';

const page = new URL('../../docs/lab-tricks.md', import.meta.url);

it('the page lists every trick with what the gate says of it', async () => {
  const heads = ['a kernel that', 'findings, at least one of'];
  const rows = tricks.map(({ name, codes, flagged, hangs }) => [
    name,
    `${codes.map((code) => `\`${code}\``).join(', ')}${flagged ? ' (a warning)' : ''}${hangs ? ' (its process is killed)' : ''}`,
  ]);
  const widths = heads.map((head, n) => Math.max(head.length, ...rows.map((row) => row[n]?.length ?? 0)));
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, n) => cell.padEnd(widths[n] ?? 0)).join(' | ')} |`;
  const text = [
    '# Tricks that the gate knows',
    '',
    'Each is a kernel in `test/support/lab-tricks.ts` that computes something else, or only seems to compute. The tests send all of them',
    'through the gate (`test/http/lab-gate-process.test.ts`): it rejects them, or accepts them with a warning where they are correct on',
    'everything that it tried. Written by `WRITE_TABLES=1 npm test -- test/unit/lab-tricks-page.test.ts`. What a bench and a parity run',
    'find beyond the gate is in `test/gpu/lab-bench.test.ts` and `test/gpu/lab-live-parity.test.ts`.',
    '',
    line(heads),
    line(widths.map((width) => '-'.repeat(width))),
    ...rows.map(line),
    '',
  ].join('\n');
  if (process.env['WRITE_TABLES'] === '1') await writeFile(page, text);
  expect(await readFile(page, 'utf8')).toBe(text);
});
