/** Tuning sweep: finds the fastest tunable combination among those that pass the gate. */
import type { Finding, ParityCase, TunedShape } from '../types.ts';
import { checkParity, type ParityResult, type ParityTask } from './parity.ts';
import type { Bench } from './references.ts';
import { type Combination, shapeOf, timeShape } from './tunables.ts';

export interface SweepResult extends ParityResult {
  readonly tuning: readonly TunedShape[];
}

/** Time for measuring all shapes. */
const budgetMs = 2500;
const leastShapeMs = 50;
/** Further failed combinations are only counted. */
const shownFailures = 8;

/**
 * Runs a few cases with every combination. Those that pass are timed on the live shapes, or on a random shape without
 * a model. The fastest must pass all cases.
 * @param checkAll runs all cases with bounds checks
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
  /** Returns true when the result has no error; else records the failure. */
  const passes = ({ overrides }: Combination, result: ParityResult): boolean => {
    const error = result.findings.find(({ severity }) => severity === 'error');
    if (!error) return true;
    results.push(result);
    failures.push({
      code: 'combination_failed',
      severity: 'warning',
      message: `the combination ${textOf(overrides)} is skipped: ${error.message}`,
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
  // If no combination passes, the errors of the first one are reported for the kernel.
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
  message: `${count} more combinations are skipped`,
});

const textOf = (overrides: Combination['overrides']): string =>
  Object.entries(overrides)
    .map(([name, value]) => `${name}=${value}`)
    .join(' ');

const kindOf = ({ name }: ParityCase): string => name.split(' ')[0] ?? '';

/** One case of each kind that finds the most errors. */
function fewCases(cases: readonly ParityCase[]): ParityCase[] {
  const few = ['random', 'ragged', 'one_row'].flatMap(
    (kind) => cases.find((one) => kindOf(one) === kind) ?? [],
  );
  return few.length > 0 ? few : cases.slice(0, 2);
}

/** One case for each live shape; without live shapes, a random case. */
function timedCases(cases: readonly ParityCase[]): ParityCase[] {
  const live = cases.filter((one) => kindOf(one) === 'live');
  const drawn = cases.find((one) => kindOf(one) === 'random') ?? cases[0];
  const candidates = live.length > 0 || !drawn ? live : [drawn];
  const byShape = new Map(candidates.map((one) => [shapeOf(one), one]));
  return [...byShape.values()];
}
