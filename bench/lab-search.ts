/**
 * A search for a faster kernel that meets wrong, cheating, hanging and crashing proposals and is killed twice
 * (test/support/search-proof.ts), at the shape of a real model: `npm run build`, then
 *
 *     node bench/lab-search.ts [--model smollm2-135m-q8_0] [--budget 15m]
 */
import { parseArgs } from 'node:util';
import { proveSearch } from '../test/support/search-proof.ts';
import { findModel } from './models.ts';
import { table } from './table.ts';

const { values } = parseArgs({
  options: {
    model: { type: 'string', default: 'smollm2-135m-q8_0' },
    budget: { type: 'string', default: '15m' },
  },
});
const model = await findModel(values.model);
const proof = await proveSearch(model.name === 'tiny' ? [] : ['--model', model.path], values.budget);
console.log(
  table(
    ['by', 'idea', 'verdict', 'speed', 'finding'],
    proof.attempts.map(({ by, idea, verdict, ratio, low, high, finding = '' }) => [
      by,
      idea,
      verdict,
      ratio === undefined || low === undefined || high === undefined
        ? ''
        : [ratio, low, high].map((value) => value.toFixed(3)).join(' '),
      finding.slice(0, 90),
    ]),
  ),
);
const { attempts: _, savedSource: _saved, boundSource: _bound, ...rest } = proof;
console.log(rest);
if (proof.boundSource !== proof.savedSource)
  throw new Error('The other host runs another kernel than was saved.');
