/** Finds the best combination of a kernel's tunables: gate first, then timing. */
import type { Finding, ParityCase, TunedShape } from '../types.ts';
import { checkParity, type ParityResult, type ParityTask } from './parity.ts';
import type { Bench } from './references.ts';
import { type Combination, shapeOf, timeShape } from './tunables.ts';

export interface SweepResult extends ParityResult {
  readonly tuning: readonly TunedShape[];
}

/** For the timing of all shapes together. */
const budgetMs = 2500;
const leastShapeMs = 50;
/** Combinations that fail are told of so many times. */
const shownFailures = 8;

/**
 * Every combination runs a few cases; those that pass are timed on the live shapes (on a drawn one without a model),
 * and a winner runs all cases before it counts.
 * @param checkAll runs all cases, with checks of bounds
 */
export async function sweep(
  bench: Bench,
  task: ParityTask,
  combinations: readonly Combination[],
  checkAll: (task: ParityTask, combination: Combination) => Promise<ParityResult>,
): Promise<SweepResult> {
  const { device } = bench.gpu;
  const failures: Finding[] = [];
  const results: ParityResult[] = [];
  /** Remembers a failure; true when there is none. */
  const passes = ({ overrides }: Combination, result: ParityResult): boolean => {
    const error = result.findings.find(({ severity }) => severity === 'error');
    if (!error) return true;
    results.push(result);
    failures.push({
      code: 'combination_failed',
      severity: 'warning',
      message: `${textOf(overrides)} is left out: ${error.message}`,
    });
    return false;
  };

  const few = { ...task, cases: fewCases(task.cases) };
  const alive: Combination[] = [];
  for (const combination of combinations) {
    const result = await checkParity(device, few, combination.candidate, combination.gridFor);
    if (passes(combination, result)) alive.push(combination);
  }

  const shapes = timedCases(task.cases);
  const verified = new Map<Combination, ParityResult | undefined>();
  const verify = async (combination: Combination): Promise<ParityResult | undefined> => {
    if (verified.has(combination)) return verified.get(combination);
    const result = await checkAll(task, combination);
    const passed = passes(combination, result) ? result : undefined;
    verified.set(combination, passed);
    return passed;
  };
  const tuning: TunedShape[] = [];
  for (const one of alive.length > 0 ? shapes : []) {
    const timed = await timeShape(bench, alive, one, {
      references: task.references,
      phases: task.phases,
      budgetMs: Math.max(leastShapeMs, budgetMs / shapes.length),
    });
    const byTime = timed.tried.toSorted((a, b) => a.ms - b.ms);
    for (const { overrides, ms } of byTime) {
      const combination = alive.find((candidate) => candidate.overrides === overrides);
      if (!combination || !(await verify(combination))) continue;
      tuning.push({ ...timed, best: overrides, best_ms: ms });
      break;
    }
  }

  const winners = [...verified.values()].filter((result) => result !== undefined);
  const shown = winners[0] ?? results[0];
  // Without a winner the errors of a combination are those of the kernel.
  const warnings = [
    ...failures.slice(0, shownFailures),
    ...(failures.length > shownFailures ? [moreFailures(failures.length - shownFailures)] : []),
  ];
  return {
    verdicts: shown?.verdicts ?? [],
    findings: [...(shown?.findings ?? []), ...warnings],
    tuning: winners.length > 0 ? tuning : [],
  };
}

const moreFailures = (count: number): Finding => ({
  code: 'combination_failed',
  severity: 'warning',
  message: `${count} more combinations are left out`,
});

const textOf = (overrides: Combination['overrides']): string =>
  Object.entries(overrides)
    .map(([name, value]) => `${name}=${value}`)
    .join(' ');

const kindOf = ({ name }: ParityCase): string => name.split(' ')[0] ?? '';

/** One of each of the kinds that find most mistakes. */
function fewCases(cases: readonly ParityCase[]): ParityCase[] {
  const few = ['random', 'ragged', 'one_row'].flatMap(
    (kind) => cases.find((one) => kindOf(one) === kind) ?? [],
  );
  return few.length > 0 ? few : cases.slice(0, 2);
}

/** A case for each live shape, else one that was drawn. */
function timedCases(cases: readonly ParityCase[]): ParityCase[] {
  const live = cases.filter((one) => kindOf(one) === 'live');
  const drawn = cases.find((one) => kindOf(one) === 'random') ?? cases[0];
  const candidates = live.length > 0 || !drawn ? live : [drawn];
  const byShape = new Map(candidates.map((one) => [shapeOf(one), one]));
  return [...byShape.values()];
}
