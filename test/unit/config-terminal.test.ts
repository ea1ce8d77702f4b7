import fc from 'fast-check';
import { expect, test } from 'vitest';
import { barLine, progressBar } from '../../src/cli/progress.ts';
import { formatCount } from '../../src/cli/ready-line.ts';

test('a bar never wraps, never overflows, and is full only at the end', () => {
  fc.assert(
    fc.property(
      fc.string({ maxLength: 30 }),
      fc.nat(1000),
      fc.nat(1000),
      fc.integer({ min: 2, max: 200 }),
      (label, done, total, columns) => {
        const line = barLine(label, done, total, columns);
        expect(line.length).toBeLessThan(columns);
        if (line.includes('100%')) expect(total > 0 && done >= total).toBe(true);
      },
    ),
  );
  expect(barLine('weights', 1, 2, 31)).toBe('weights [########-------]  50%');
});

test('a terminal without a known width gets a bar of the default width', () => {
  let written = '';
  const bar = progressBar({ isTTY: true, columns: 0, write: (text) => (written += text) }, false);
  bar.show('weights', 1, 2);
  expect(written).toMatch(/weights \[#{20}-{20}\] {2}50%$/);
});

test('counts are short', () => {
  expect([0, 999, 1500, 3_670_016, 494_032_768, 8_030_261_248].map(formatCount)).toEqual([
    '0',
    '999',
    '1.5K',
    '3.7M',
    '494.0M',
    '8.0B',
  ]);
});
