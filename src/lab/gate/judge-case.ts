/** Compares the runs of one case with the oracle: error measures, and findings with advice. */
import type { Contract, Exactness } from '../../../kernels/contracts.ts';
import { exactnessOf } from '../ops/exactness.ts';
import type { CaseVerdict, ExpectedOutput, Finding, ParityCase, Tolerance } from '../types.ts';
import { biasOf } from './bias.ts';
import { elementsOf } from './elements.ts';
import { judgeOutput, type OutputRuns, buildOutputRuns } from './judge-output.ts';
import type { CaseRun } from './run-case.ts';
import { isLowPrecision, measureErrors, formatError } from './output-errors.ts';

export interface CaseJudgment {
  readonly verdict: CaseVerdict;
  /** Systematic errors of the first run, by output. */
  readonly biases: readonly { readonly output: string; readonly bias: ReturnType<typeof biasOf> }[];
  readonly exactness: Exactness;
  readonly findings: readonly Finding[];
}

export interface CaseRunInput {
  readonly contract: Contract;
  readonly parityCase: ParityCase;
  readonly run: CaseRun;
  readonly expected: Readonly<Record<string, ExpectedOutput>>;
  /** Words of the writable bindings after the built-in kernel ran. */
  readonly builtin?: Readonly<Record<string, Uint32Array<ArrayBuffer>>> | undefined;
  readonly tolerance: Tolerance;
}

export function judgeCase(input: CaseRunInput): CaseJudgment {
  const { contract, parityCase, run, expected, tolerance } = input;
  const exactness = exactnessOf(contract, parityCase.format);
  const findings: Finding[] = [];
  const report = (code: string, message: string, severity: Finding['severity'] = 'error') => {
    findings.push({ code, severity, message: `${message}, case ${parityCase.name}` });
  };

  for (const { inputs, canaries } of [run.first, run.second]) {
    for (const { binding, word } of inputs) {
      report(
        'input_changed',
        `the input ${binding} was changed, first at word ${word}: do not write to inputs`,
      );
    }
    for (const { binding, word } of canaries) {
      const where = word < 0 ? `${-word} words before` : `${word} words after`;
      report('canary_changed', `the kernel wrote ${where} ${binding}: write only inside the binding`);
    }
  }
  const outputs = contract.bindings.flatMap((binding) => {
    const expectedOutput = expected[binding.name];
    return expectedOutput ? [buildOutputRuns(binding, expectedOutput, input)] : [];
  });
  for (const output of outputs) judgeOutput(output, { tolerance, exactness, report });

  const builtin = builtinErrors(input, outputs);
  const maxOverOutputs = (of: (output: OutputRuns) => number) => clampFinite(Math.max(...outputs.map(of)));
  const nmse = maxOverOutputs(({ errors }) => errors.nmse);
  const ok = !findings.some(({ severity }) => severity === 'error');
  if (ok && isLowPrecision(nmse, builtin?.nmse, exactness)) {
    const builtinNote = builtin ? ` and the error of the built-in kernel, ${formatError(builtin.nmse)}` : '';
    report(
      'lower_precision_than_builtin',
      `NMSE ${formatError(nmse)} is within the tolerance (${formatError(tolerance.nmse)}), but far above the rounding error of this op${builtinNote}: check for f16 arithmetic, and for constants and sums with too few bits`,
      'warning',
    );
  }
  const worst = outputs.reduce((a, b) =>
    relativeExcess(b, tolerance) > relativeExcess(a, tolerance) ? b : a,
  );
  const index = worst.errors.worstIndex;
  const verdict: CaseVerdict = {
    case: parityCase.name,
    ok,
    nmse,
    nmse_limit: tolerance.nmse,
    max_abs: maxOverOutputs(({ errors }) => errors.maxAbs),
    max_rel: maxOverOutputs(({ errors }) => errors.maxRel),
    matched_ratio: Math.min(...outputs.map(({ errors }) => errors.matchedRatio)),
    worst: {
      output: worst.binding.name,
      index,
      expected: worst.expected.values[index] ?? Number.NaN,
      got: worst.worseRun.values[index] ?? Number.NaN,
    },
    ...(builtin ? { builtin } : {}),
  };
  const biases = outputs.map(({ binding, expected: wanted, first }) => ({
    output: binding.name,
    bias: biasOf(wanted, first.values),
  }));
  return { verdict, findings, biases, exactness };
}

/** Errors relative to the tolerance, to select the output that the verdict shows. */
const relativeExcess = ({ errors }: OutputRuns, tolerance: Tolerance): number =>
  Math.max(errors.nmse / (tolerance.nmse || 1), errors.maxAbsRelative / (tolerance.max_abs || 1));

function builtinErrors(
  { builtin, tolerance }: CaseRunInput,
  outputs: readonly OutputRuns[],
): { nmse: number; max_abs: number } | undefined {
  if (!builtin) return undefined;
  const all = outputs.flatMap(({ binding, expected, rowLength }) => {
    const words = builtin[binding.name];
    const values = words && elementsOf(binding.dtype ?? 'f32', words).values;
    return values ? [measureErrors(expected, values, rowLength, tolerance)] : [];
  });
  if (all.length === 0) return undefined;
  return {
    nmse: clampFinite(Math.max(...all.map(({ nmse }) => nmse))),
    max_abs: clampFinite(Math.max(...all.map(({ maxAbs }) => maxAbs))),
  };
}

/** JSON cannot represent infinity. */
const clampFinite = (value: number): number => Math.min(value, Number.MAX_VALUE);
