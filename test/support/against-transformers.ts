/** How far answers are from those of transformers, how far they may be, and a table of it for the end of a test file. */
import { expect } from 'vitest';
import type { Runner } from '../../src/engine/runner.ts';
import type { EmbeddingRun, LogitsRun, Place } from './architectures.ts';
import { argmax, cosines, maxDifference, meanDifference, type Rows } from './rows.ts';

/**
 * Logits spread by 2, elements of an embedding by about 0.1. `exact` is against float32 throughout; `rounded` against
 * keys and values kept in 16 bits, where a different last bit of a sum seldom makes another half: single logits move,
 * their mean does not. A GELU of the wrong kind moves it by 5e-4, in embeddings by 9e-6. `sameWay` is between ways to
 * compute the same: other kernels sum in another order. GPUs that can multiply in 16 bits do.
 */
const boundsIn = {
  float32: {
    logits: { exact: 0.03, rounded: 0.005, mean: 4e-4, sameWay: 0.003 },
    embedding: { exact: 0.001, rounded: 2e-4, mean: 7e-6, sameWay: 1e-4 },
  },
  float16: {
    logits: { exact: 0.1, rounded: 0.1, mean: 0.008, sameWay: 0.1 },
    embedding: { exact: 0.004, rounded: 0.004, mean: 6e-4, sameWay: 0.004 },
  },
};
const leastAgreement = 0.97;
const leastCosine = 0.9999;

interface Errors {
  readonly exact: number;
  readonly rounded: number;
  readonly mean: number;
}

/** What is allowed on the kernels that a runner has. */
export const boundsOf = ({ gpu: { caps } }: Runner) =>
  boundsIn[caps.f16 && !caps.software ? 'float16' : 'float32'];

const table: string[] = [];
function report(name: string, { exact, rounded, mean }: Errors, more: string): void {
  const figures = [exact, rounded, mean].map((error) => error.toExponential(1));
  table.push([name.padEnd(32), ...figures, more].join('  '));
}
/** All comparisons so far, one a line. */
export const comparisons = (): string =>
  [
    'against transformers: largest error; with a cache in 16 bits the largest and the mean error',
    ...table.sort(),
  ].join('\n');

function expectWithin(errors: Errors, most: Errors): void {
  expect(errors.exact).toBeLessThan(most.exact);
  expect(errors.rounded).toBeLessThan(most.rounded);
  expect(errors.mean).toBeLessThan(most.mean);
}

/** @param got a row for each position of the run */
export function expectLogits(
  name: string,
  runner: Runner,
  got: Rows,
  { run, rows }: { run: LogitsRun; rows: (place: Place) => Rows },
): void {
  const [exact, rounded] = [rows(run.logits), rows(run.rounded.logits)];
  const some = run.rounded.positions.map((position) => got[run.positions.indexOf(position)] as Float32Array);
  const errors = {
    exact: maxDifference(got, exact),
    rounded: maxDifference(some, rounded),
    mean: meanDifference(some, rounded),
  };
  const agreed = got.filter((row, n) => argmax(row) === argmax(exact[n] as Float32Array)).length;
  report(name, errors, `top-1 ${agreed} of ${got.length}`);
  expectWithin(errors, boundsOf(runner).logits);
  expect(agreed / got.length).toBeGreaterThanOrEqual(leastAgreement);
}

/** @param got a row for each text of the fixture */
export function expectEmbeddings(
  name: string,
  runner: Runner,
  got: Rows,
  { run, rows }: { run: EmbeddingRun; rows: (place: Place) => Rows },
): void {
  const [exact, rounded] = [rows(run.embeddings), rows(run.rounded)];
  const cosine = Math.min(...cosines(got, exact));
  const errors = {
    exact: maxDifference(got, exact),
    rounded: maxDifference(got, rounded),
    mean: meanDifference(got, rounded),
  };
  report(name, errors, `cosine ${cosine.toFixed(7)}`);
  expectWithin(errors, boundsOf(runner).embedding);
  expect(cosine).toBeGreaterThan(leastCosine);
}
