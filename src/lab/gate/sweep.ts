/** Tuning sweep: finds the fastest tunable combination among those that pass the gate. */
import type { Comparison, Finding, ParityCase, TunedShape } from '../types.ts';
import { checkParity, type ParityResult, type ParityTask } from './parity.ts';
import type { GateDevice } from './references.ts';
import { type Combination, formatOverrides, type Overrides, shapeOf, ShapeTimer } from './tunables.ts';

/** A combination that is used, and what all cases found of it. */
export interface KeptCombination {
  readonly combination: Combination;
  readonly result: ParityResult;
}

export interface TuningResult {
  readonly tuning: readonly TunedShape[];
  /** Those of all shapes; none if no combination passes. */
  readonly kept: readonly KeptCombination[];
  /** The first combination that failed, if all do. */
  readonly failed: KeptCombination | undefined;
  /** Combinations that are not used. */
  readonly findings: readonly Finding[];
}

/** Time for measuring all shapes. */
const budgetMs = 2500;
const minShapeMs = 50;
/** Further failed combinations are only counted. */
const maxReportedFailures = 8;

/**
 * Runs a few cases with every combination. Those that pass are timed on the live shapes, or on a random shape without
 * a model. The one that is kept must pass all cases.
 * @param defaults values of the kernel without tuning
 * @param checkAll runs all cases with bounds checks
 */
export async function tuneKernel(
  gateDevice: GateDevice,
  task: ParityTask,
  { combinations, defaults }: { combinations: readonly Combination[]; defaults: Overrides },
  checkAll: (task: ParityTask, combination: Combination) => Promise<ParityResult>,
): Promise<TuningResult> {
  const { device } = gateDevice.gpu;
  const failures: Finding[] = [];
  let failed: KeptCombination | undefined;
  /** Returns true when the result has no error; else records the failure. */
  const recordOutcome = (combination: Combination, result: ParityResult): boolean => {
    const error = result.findings.find(({ severity }) => severity === 'error');
    if (!error) return true;
    failed ??= { combination, result };
    failures.push({
      code: 'combination_failed',
      severity: 'warning',
      message: `the combination ${formatOverrides(combination.overrides)} is skipped: ${error.message}`,
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
  const verify = async (combination: Combination): Promise<boolean> => {
    if (!verified.has(combination)) {
      const result = await checkAll(task, combination);
      verified.set(combination, recordOutcome(combination, result) ? result : undefined);
    }
    return verified.get(combination) !== undefined;
  };
  const byValues = new Map(passing.map((one) => [formatOverrides(one.overrides), one]));
  const standard = byValues.get(formatOverrides(defaults));
  const tuning: TunedShape[] = [];
  const kept = new Set<Combination>();
  for (const parityCase of passing.length > 0 ? shapes : []) {
    const timer = await ShapeTimer.open(gateDevice, passing, parityCase, task);
    try {
      const timed = await timer.timeAll(Math.max(minShapeMs, budgetMs / shapes.length));
      const byTime = timed.tried
        .toSorted((a, b) => a.ms - b.ms)
        .flatMap(({ overrides }) => byValues.get(formatOverrides(overrides)) ?? []);
      const choice = await chooseCombination(byTime, standard, {
        verify,
        compare: (baseline, other) => timer.compare(baseline, other, task.seed),
      });
      if (!choice) continue;
      kept.add(choice.kept);
      const { overrides } = choice.kept;
      tuning.push({
        ...timed,
        default: defaults,
        best: overrides,
        best_ms: timed.tried.find((one) => one.overrides === overrides)?.ms ?? 0,
        ...(choice.fastest ? { fastest: choice.fastest } : {}),
      });
    } finally {
      timer.destroy();
    }
  }

  return {
    tuning,
    kept: [...kept].flatMap((combination) => {
      const result = verified.get(combination);
      return result ? [{ combination, result }] : [];
    }),
    failed,
    findings: [
      ...failures.slice(0, maxReportedFailures),
      ...(failures.length > maxReportedFailures
        ? [omittedFailuresFinding(failures.length - maxReportedFailures)]
        : []),
    ],
  };
}

/**
 * The fastest correct combination, if it is faster than the default beyond the noise; else the default.
 * @param byTime the fastest first
 * @param standard the default, unless it failed a case
 * @returns undefined if none is correct
 */
export async function chooseCombination(
  byTime: readonly Combination[],
  standard: Combination | undefined,
  {
    verify,
    compare,
  }: {
    /** Whether it passes all cases. */
    verify: (combination: Combination) => Promise<boolean>;
    compare: (baseline: Combination, other: Combination) => Promise<Comparison>;
  },
): Promise<
  { readonly kept: Combination; readonly fastest?: NonNullable<TunedShape['fastest']> } | undefined
> {
  for (const combination of byTime) {
    if (!(await verify(combination))) continue;
    if (!standard || combination === standard) return { kept: combination };
    const comparison = await compare(standard, combination);
    const fastest = { overrides: combination.overrides, ...comparison };
    const isKept = comparison.verdict === 'faster' || !(await verify(standard));
    return { kept: isKept ? combination : standard, fastest };
  }
  return undefined;
}

/** What was found of each combination, once. Findings that not all of several have in common name theirs. */
export function findingsOfCombinations(
  found: readonly { readonly overrides: Overrides; readonly findings: readonly Finding[] }[],
): Finding[] {
  const byText = new Map<string, { finding: Finding; names: Set<string> }>();
  for (const { overrides, findings } of found)
    for (const finding of findings) {
      const text = JSON.stringify(finding);
      const one = byText.get(text) ?? { finding, names: new Set() };
      one.names.add(formatOverrides(overrides));
      byText.set(text, one);
    }
  return [...byText.values()].map(({ finding, names }) =>
    found.length > 1 && names.size === found.length
      ? finding
      : { ...finding, message: `with ${[...names].join(' and ')}: ${finding.message}` },
  );
}

const omittedFailuresFinding = (count: number): Finding => ({
  code: 'combination_failed',
  severity: 'warning',
  message: `${count} more combinations are skipped`,
});

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
