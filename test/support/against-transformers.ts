/** How far answers are from those of transformers, how far they may be, and a table of it for the end of a test file. */
import { expect } from 'vitest';
import type { Runner } from '../../src/engine/execution/runner.ts';
import type { EmbeddingRun, LogitsRun, Place } from './architectures.ts';
import type { Comparison } from './models-page.ts';
import { roundsToF16 } from './precision.ts';
import { argmax, cosines, maxDifference, meanDifference, type Rows } from './rows.ts';

/**
 * Logits spread by 2, elements of an embedding by about 0.1. `exact` is against float32 throughout; `rounded` against
 * keys and values kept in 16 bits, where a different last bit of a sum seldom makes another half: single logits move,
 * their mean does not. A GELU of the wrong kind moves it by 5e-4, in embeddings by 9e-6. `sameWay` is between ways to
 * compute the same: other kernels sum in another order. Tiles of GPUs multiply in 16 bits, unless a model is
 * loaded with `exact`. `agreement` is the part of
 * the positions where the same token leads: of 64 positions some are near ties.
 */
const boundsIn = {
  float32: {
    logits: { exact: 0.03, rounded: 0.005, mean: 4e-4, sameWay: 0.003, agreement: 0.97 },
    embedding: { exact: 0.001, rounded: 2e-4, mean: 7e-6, sameWay: 1e-4 },
  },
  float16: {
    logits: { exact: 0.1, rounded: 0.1, mean: 0.008, sameWay: 0.1, agreement: 0.95 },
    embedding: { exact: 0.004, rounded: 0.004, mean: 6e-4, sameWay: 0.004 },
  },
};
const minCosine = 0.9999;

interface Errors {
  readonly exact: number;
  readonly rounded: number;
  readonly mean: number;
}

/** What is allowed on the kernels that a runner has. */
export const boundsOf = (runner: Runner) => boundsIn[roundsToF16(runner) ? 'float16' : 'float32'];

const found: Comparison[] = [];
const adapters = new Set<string>();
function report(name: string, { gpu }: Runner, errors: Errors, agreement: string): void {
  adapters.add(gpu.facts.description);
  found.push({ name, ...errors, agreement });
}

/** All comparisons so far. */
export const comparisons = (): { comparisons: readonly Comparison[]; adapters: readonly string[] } => ({
  comparisons: found,
  adapters: [...adapters],
});

function expectWithin(errors: Errors, max: Errors): void {
  expect(errors.exact).toBeLessThan(max.exact);
  expect(errors.rounded).toBeLessThan(max.rounded);
  expect(errors.mean).toBeLessThan(max.mean);
}

/** @param got the whole vocabulary's logits for each position of the run */
export function expectLogits(
  name: string,
  runner: Runner,
  got: Rows,
  { run, rows }: { run: LogitsRun; rows: (place: Place) => Rows },
): void {
  const bounds = boundsOf(runner).logits;
  const { columns, positions, top } = run;
  const answered = columns ? got.map((row) => Float32Array.from(columns, (id) => row[id] as number)) : got;
  const rounded = rows(run.rounded.logits);
  const some = run.rounded.positions.map((position) => answered[positions.indexOf(position)] as Float32Array);
  const leaders = rows(top.logits).map(([best, second], n) => ({
    error: Math.abs((got[n]?.[top.ids[n] as number] as number) - (best as number)),
    ahead: (best as number) - (second as number),
    same: argmax(got[n] as Float32Array) === top.ids[n],
  }));
  const errors = {
    exact: Math.max(maxDifference(answered, rows(run.logits)), ...leaders.map(({ error }) => error)),
    rounded: maxDifference(some, rounded),
    mean: meanDifference(some, rounded),
  };
  const agreed = leaders.filter(({ same }) => same).length;
  report(name, runner, errors, `top-1 ${agreed} of ${got.length}`);
  expectWithin(errors, bounds);
  // Two logits, each wrong by the bound at most, pass each other only where they are nearly the same.
  const overtaken = positions.filter(
    (_, n) => !leaders[n]?.same && (leaders[n]?.ahead ?? 0) > 2 * bounds.exact,
  );
  expect(overtaken, 'positions where another token leads clearly').toEqual([]);
  expect(agreed / got.length).toBeGreaterThanOrEqual(bounds.agreement);
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
  report(name, runner, errors, `cosine ${cosine.toFixed(7)}`);
  expectWithin(errors, boundsOf(runner).embedding);
  expect(cosine).toBeGreaterThan(minCosine);
}
