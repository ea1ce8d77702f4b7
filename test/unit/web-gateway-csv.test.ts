import { expect, it } from 'vitest';
import { toCsv } from '../../web/gateway/views/usage/csv.ts';

const counts = { requests: 1, prompt_tokens: 2, cached_tokens: 0, completion_tokens: 3, spend_usd: '0.5' };
const csvOf = (tags: readonly string[]) =>
  toCsv(
    { data: tags.map((tag) => ({ ...counts, tag })) } as unknown as Parameters<typeof toCsv>[0],
    'tag',
    String,
  )
    .split('\r\n')
    .slice(1, -1)
    .map((row) => row.replace(/,1,2,0,3,0\.5$/, ''));

it('has no cell that a spreadsheet runs as a formula, whatever a caller puts in a tag', () => {
  const hostile = ["-2+3+cmd|' /C calc'!A0", '-.5+1', '-1-1', '=1+2', '+1', '@SUM(1)', '\t=1', '-a'];
  expect(csvOf(hostile)).toEqual(hostile.map((tag) => `'${tag}`));
  expect(csvOf(['=1,"2"'])).toEqual([`"'=1,""2"""`]);
  expect(csvOf(['team-1', '-12.5', '7', ''])).toEqual(['team-1', '-12.5', '7', '']);
});
