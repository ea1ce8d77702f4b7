/** Runs a candidate on parity cases and compares it with the oracle. Also measures the error of the built-in kernel. */
import type { LabOp } from '../ops/index.ts';
import type { CaseVerdict, Finding, ParityCase, Tolerance } from '../types.ts';
import { BiasMeter } from './bias.ts';
import { ConditionOutcomes } from './condition-outcomes.ts';
import { ValueRanges } from './value-ranges.ts';
import type { Grid } from './dispatch.ts';
import { judgeCase } from './judge-case.ts';
import type { PhaseReporter } from './phases.ts';
import type { ReferenceCache } from './references.ts';
import { type Candidate, startCase } from './run-case.ts';

export interface ParityTask {
  readonly op: LabOp;
  readonly cases: readonly ParityCase[];
  /** Tolerance for a weight format. */
  readonly toleranceFor: (format?: string) => Tolerance;
  /** Scale of the tolerance of systematic errors. */
  readonly biasScale: number;
  readonly seed: number;
  readonly references: ReferenceCache;
  readonly phases: PhaseReporter;
}

export interface ParityResult {
  readonly verdicts: readonly CaseVerdict[];
  readonly findings: readonly Finding[];
}

/** Further findings of one code are only counted. */
const maxFindingsPerCode = 3;

/** @param gridFor throws `RangeError` */
export async function checkParity(
  device: GPUDevice,
  { op, cases, toleranceFor, biasScale, seed, references, phases }: ParityTask,
  candidate: Candidate,
  gridFor: (parityCase: ParityCase) => Grid,
): Promise<ParityResult> {
  const verdicts: CaseVerdict[] = [];
  const findings: Finding[] = [];
  const biases = new BiasMeter();
  const reportedSites = new Set<number>();
  const outcomes = new ConditionOutcomes(candidate.checked);
  const ranges = new ValueRanges(candidate.checked);
  // The GPU runs one case while the oracle computes the next. Only the time spent waiting for the kernel counts against
  // its limit.
  let pending: (() => Promise<void>) | undefined;
  for (const [index, parityCase] of cases.entries()) {
    const grid = gridOrFinding(gridFor, parityCase);
    if ('code' in grid) {
      findings.push(grid);
      continue;
    }
    const { expected, outWords } = references.getReference(parityCase);
    await pending?.();
    const builtin = await references.runBuiltinOnce(parityCase);
    const complement = index % 2 === 1;
    const options = { grid, outWords, seed: seed + index, complement, phases };
    const { done } = await startCase(device, candidate, parityCase, options);
    // Awaited later: until then, a rejection must not be reported as unhandled.
    done.catch(() => {});
    pending = async () => {
      const run = await phases.during('run', () => done);
      if (run.failure !== undefined) {
        const message = `the kernel cannot run on case ${parityCase.name}: ${run.failure}`;
        findings.push({ code: 'run_failed', severity: 'error', message });
        return;
      }
      outcomes.add(run.counts);
      ranges.add(run.counts);
      findings.push(...outOfBoundsFindings(candidate, parityCase, run.counts, reportedSites));
      const judgment = judgeCase({
        contract: op.contract,
        parityCase,
        run,
        expected,
        builtin,
        tolerance: limitTolerance(toleranceFor(parityCase.format), parityCase, biasScale),
      });
      for (const { output, bias } of judgment.biases) biases.add(output, judgment.exactness, bias);
      verdicts.push(judgment.verdict);
      findings.push(...judgment.findings);
    };
  }
  await pending?.();
  // Where results are wrong, they are biased too.
  if (!findings.some(({ severity }) => severity === 'error'))
    findings.push(
      ...biases.findings(biasScale),
      ...outcomes.findings(cases.length),
      ...ranges.findings(cases.length),
    );
  return { verdicts, findings: limitPerCode(findings) };
}

/** The tolerance of a case that has a limit of its own. */
const limitTolerance = (
  tolerance: Tolerance,
  { maxNmse = Number.POSITIVE_INFINITY }: ParityCase,
  scale: number,
): Tolerance => ({ ...tolerance, nmse: Math.min(tolerance.nmse, maxNmse * scale) });

function gridOrFinding(gridFor: (parityCase: ParityCase) => Grid, parityCase: ParityCase): Grid | Finding {
  try {
    return gridFor(parityCase);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return {
      code: 'invalid_dispatch',
      severity: 'error',
      message: `${error.message}, case ${parityCase.name}`,
    };
  }
}

/** Reports each site once, for the first case in which it occurs. */
function outOfBoundsFindings(
  { checked }: Candidate,
  parityCase: ParityCase,
  counts: Uint32Array,
  reportedSites: Set<number>,
): Finding[] {
  return (checked?.sites ?? []).flatMap((site, index) => {
    const [count = 0, badIndex = 0] = counts.subarray(index * 2);
    if (count === 0 || reportedSites.has(index)) return [];
    reportedSites.add(index);
    const { binding, line, column, length, isWrite } = site;
    const message =
      `${binding} has no element ${badIndex}: ${count} out-of-bounds ${isWrite ? 'writes' : 'reads'} here, case ${parityCase.name}. ` +
      `${isWrite ? 'Such a write is discarded' : 'Such a read returns an arbitrary value'}: check the index against the op's dims first`;
    return [{ code: 'out_of_bounds', severity: 'error' as const, message, line, column, length }];
  });
}

function limitPerCode(findings: readonly Finding[]): Finding[] {
  const counts = new Map<string, number>();
  const shown = findings.filter(({ code, line }) => {
    const count = (counts.get(code) ?? 0) + 1;
    counts.set(code, count);
    // Findings with a source location are all shown.
    return line !== undefined || count <= maxFindingsPerCode;
  });
  return shown.map((finding) => {
    const omitted = (counts.get(finding.code) ?? 0) - maxFindingsPerCode;
    const isLast = shown.findLast(({ code }) => code === finding.code) === finding;
    if (omitted <= 0 || !isLast || finding.line !== undefined) return finding;
    return { ...finding, message: `${finding.message} (and ${omitted} more)` };
  });
}
