/** Tuning sweep: finds the fastest tunable combination among those that pass the gate. */
import type { Finding, ParityCase, TunedShape } from '../types.ts';
import { checkParity, type ParityResult, type ParityTask } from './parity.ts';
import type { GateDevice } from './references.ts';
import { type Combination, shapeOf, timeShape } from './tunables.ts';

export interface TuningResult extends ParityResult {
  readonly tuning: readonly TunedShape[];
}

/** Time for measuring all shapes. */
const budgetMs = 2500;
const minShapeMs = 50;
/** Further failed combinations are only counted. */
const maxReportedFailures = 8;

/**
 * Runs a few cases with every combination. Those that pass are timed on the live shapes, or on a random shape without
 * a model. The fastest must pass all cases.
 * @param checkAll runs all cases with bounds checks
 */
export async function tuneKernel(
  gateDevice: GateDevice,
  task: ParityTask,
  combinations: readonly Combination[],
  checkAll: (task: ParityTask, combination: Combination) => Promise<ParityResult>,
): Promise<TuningResult> {
  const { device } = gateDevice.gpu;
  const failures: Finding[] = [];
  const results: ParityResult[] = [];
  /** Returns true when the result has no error; else records the failure. */
  const recordOutcome = ({ overrides }: Combination, result: ParityResult): boolean => {
    const error = result.findings.find(({ severity }) => severity === 'error');
    if (!error) return true;
    results.push(result);
    failures.push({
      code: 'combination_failed',
      severity: 'warning',
      message: `the combination ${formatOverrides(overrides)} is skipped: ${error.message}`,
    });
    return false;
  };

  const quickTask = { ...task, cases: quickCases(task.cases) };
  const passing: Combination[] = [];
  for (const combination of combinations) {
    const result = await checkParity(device, quickTask, combination.candidate, combination.gridFor);
    if (recordOutcome(combination, result)) passing.push(combination);
  }

  const shapes = timedCases(task.cases);
  const verified = new Map<Combination, ParityResult | undefined>();
  const verifyOnAllCases = async (combination: Combination): Promise<ParityResult | undefined> => {
    if (verified.has(combination)) return verified.get(combination);
    const result = await checkAll(task, combination);
    const passed = recordOutcome(combination, result) ? result : undefined;
    verified.set(combination, passed);
    return passed;
  };
  const tuning: TunedShape[] = [];
  for (const parityCase of passing.length > 0 ? shapes : []) {
    const timed = await timeShape(gateDevice, passing, parityCase, {
      references: task.references,
      phases: task.phases,
      budgetMs: Math.max(minShapeMs, budgetMs / shapes.length),
    });
    const byTime = timed.tried.toSorted((a, b) => a.ms - b.ms);
    for (const { overrides, ms } of byTime) {
      const combination = passing.find((candidate) => candidate.overrides === overrides);
      if (!combination || !(await verifyOnAllCases(combination))) continue;
      tuning.push({ ...timed, best: overrides, best_ms: ms });
      break;
    }
  }

  const winners = [...verified.values()].filter((result) => result !== undefined);
  const reportedResult = winners[0] ?? results[0];
  // If no combination passes, the errors of the first one are reported for the kernel.
  const warnings = [
    ...failures.slice(0, maxReportedFailures),
    ...(failures.length > maxReportedFailures
      ? [omittedFailuresFinding(failures.length - maxReportedFailures)]
      : []),
  ];
  return {
    verdicts: reportedResult?.verdicts ?? [],
    findings: [...(reportedResult?.findings ?? []), ...warnings],
    tuning: winners.length > 0 ? tuning : [],
  };
}

const omittedFailuresFinding = (count: number): Finding => ({
  code: 'combination_failed',
  severity: 'warning',
  message: `${count} more combinations are skipped`,
});

const formatOverrides = (overrides: Combination['overrides']): string =>
  Object.entries(overrides)
    .map(([name, value]) => `${name}=${value}`)
    .join(' ');

const kindOf = ({ name }: ParityCase): string => name.split(' ')[0] ?? '';

/** One case of each kind that finds the most errors. */
function quickCases(cases: readonly ParityCase[]): ParityCase[] {
  const quickTask = ['random', 'ragged', 'one_row'].flatMap(
    (kind) => cases.find((parityCase) => kindOf(parityCase) === kind) ?? [],
  );
  return quickTask.length > 0 ? quickTask : cases.slice(0, 2);
}

/** One case for each live shape; without live shapes, a random case. */
function timedCases(cases: readonly ParityCase[]): ParityCase[] {
  const live = cases.filter((parityCase) => kindOf(parityCase) === 'live');
  const randomCase = cases.find((parityCase) => kindOf(parityCase) === 'random') ?? cases[0];
  const candidates = live.length > 0 || !randomCase ? live : [randomCase];
  const byShape = new Map(candidates.map((parityCase) => [shapeOf(parityCase), parityCase]));
  return [...byShape.values()];
}
