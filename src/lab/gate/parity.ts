/** Runs a candidate on parity cases and compares it with the oracle. Also measures the error of the built-in kernel. */
import type { LabOp } from '../ops/index.ts';
import type { CaseVerdict, Finding, ParityCase, Tolerance } from '../types.ts';
import type { Grid } from './dispatch.ts';
import { judgeCase } from './judge-case.ts';
import type { Phases } from './phases.ts';
import type { References } from './references.ts';
import { type Candidate, startCase } from './run-case.ts';

export interface ParityTask {
  readonly op: LabOp;
  readonly cases: readonly ParityCase[];
  /** Tolerance for a weight format. */
  readonly toleranceFor: (format?: string) => Tolerance;
  readonly seed: number;
  readonly references: References;
  readonly phases: Phases;
}

export interface ParityResult {
  readonly verdicts: readonly CaseVerdict[];
  readonly findings: readonly Finding[];
}

/** Further findings of one code are only counted. */
const shownPerCode = 3;

/** @param gridFor throws `RangeError` */
export async function checkParity(
  device: GPUDevice,
  { op, cases, toleranceFor, seed, references, phases }: ParityTask,
  candidate: Candidate,
  gridFor: (one: ParityCase) => Grid,
): Promise<ParityResult> {
  const verdicts: CaseVerdict[] = [];
  const findings: Finding[] = [];
  const reported = new Set<number>();
  // The GPU runs one case while the oracle computes the next. Only the time spent waiting for the kernel counts against
  // its limit.
  let pending: (() => Promise<void>) | undefined;
  for (const [index, one] of cases.entries()) {
    const grid = tryGrid(gridFor, one);
    if ('code' in grid) {
      findings.push(grid);
      continue;
    }
    const { expected, outWords } = references.of(one);
    await pending?.();
    const builtin = await references.builtin(one);
    const complement = index % 2 === 1;
    const options = { grid, outWords, seed: seed + index, complement, phases };
    const { done } = await startCase(device, candidate, one, options);
    // Awaited later: until then, a rejection must not be reported as unhandled.
    done.catch(() => {});
    pending = async () => {
      const run = await phases.during('run', () => done);
      if (run.refused !== undefined) {
        const message = `the kernel cannot run on case ${one.name}: ${run.refused}`;
        findings.push({ code: 'run_failed', severity: 'error', message });
        return;
      }
      findings.push(...outOfBounds(candidate, one, run.counts, reported));
      const judged = judgeCase({
        contract: op.contract,
        one,
        run,
        expected,
        builtin,
        tolerance: toleranceFor(one.format),
      });
      verdicts.push(judged.verdict);
      findings.push(...judged.findings);
    };
  }
  await pending?.();
  return { verdicts, findings: fewOfEach(findings) };
}

function tryGrid(gridFor: (one: ParityCase) => Grid, one: ParityCase): Grid | Finding {
  try {
    return gridFor(one);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return { code: 'invalid_dispatch', severity: 'error', message: `${error.message}, case ${one.name}` };
  }
}

/** Reports each site once, for the first case in which it occurs. */
function outOfBounds(
  { checked }: Candidate,
  one: ParityCase,
  counts: Uint32Array,
  reported: Set<number>,
): Finding[] {
  return (checked?.sites ?? []).flatMap((site, index) => {
    const [count = 0, bad = 0] = counts.subarray(index * 2);
    if (count === 0 || reported.has(index)) return [];
    reported.add(index);
    const { binding, line, column, length, write } = site;
    const message =
      `${binding} has no element ${bad}: ${count} out-of-bounds ${write ? 'writes' : 'reads'} here, case ${one.name}. ` +
      `${write ? 'Such a write is discarded' : 'Such a read returns an arbitrary value'}: check the index against the op's dims first`;
    return [{ code: 'out_of_bounds', severity: 'error' as const, message, line, column, length }];
  });
}

function fewOfEach(findings: readonly Finding[]): Finding[] {
  const counts = new Map<string, number>();
  const shown = findings.filter(({ code, line }) => {
    const count = (counts.get(code) ?? 0) + 1;
    counts.set(code, count);
    // Findings with a source location are all shown.
    return line !== undefined || count <= shownPerCode;
  });
  return shown.map((finding) => {
    const more = (counts.get(finding.code) ?? 0) - shownPerCode;
    const isLast = shown.findLast(({ code }) => code === finding.code) === finding;
    if (more <= 0 || !isLast || finding.line !== undefined) return finding;
    return { ...finding, message: `${finding.message} (and ${more} more)` };
  });
}
