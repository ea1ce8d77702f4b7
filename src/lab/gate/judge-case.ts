/** Compares the runs of one case with the oracle: error measures, and findings with advice. */
import type { Contract } from '../../../kernels/contracts.ts';
import { exactnessOf } from '../ops/descriptor.ts';
import type { CaseVerdict, ExpectedOutput, Finding, ParityCase, Tolerance } from '../types.ts';
import { elementsOf } from './elements.ts';
import { judgeOutput, type OutputRuns, outputRuns } from './judge-output.ts';
import type { CaseRun } from './run-case.ts';
import { isCoarse, measure, brief } from './verdict.ts';

export interface Judged {
  readonly verdict: CaseVerdict;
  readonly findings: readonly Finding[];
}

export interface CaseMaterial {
  readonly contract: Contract;
  readonly one: ParityCase;
  readonly run: CaseRun;
  readonly expected: Readonly<Record<string, ExpectedOutput>>;
  /** Words of the writable bindings after the built-in kernel ran. */
  readonly builtin?: Readonly<Record<string, Uint32Array<ArrayBuffer>>> | undefined;
  readonly tolerance: Tolerance;
}

export function judgeCase(material: CaseMaterial): Judged {
  const { contract, one, run, expected, tolerance } = material;
  const exactness = exactnessOf(contract, one.format);
  const findings: Finding[] = [];
  const say = (code: string, message: string, severity: Finding['severity'] = 'error') => {
    findings.push({ code, severity, message: `${message}, case ${one.name}` });
  };

  for (const { inputs, canaries } of [run.first, run.second]) {
    for (const { binding, word } of inputs) {
      say('input_changed', `the input ${binding} was changed, first at word ${word}: do not write to inputs`);
    }
    for (const { binding, word } of canaries) {
      const where = word < 0 ? `${-word} words before` : `${word} words after`;
      say('canary_changed', `the kernel wrote ${where} ${binding}: write only inside the binding`);
    }
  }
  const outputs = contract.bindings.flatMap((binding) => {
    const wanted = expected[binding.name];
    return wanted ? [outputRuns(binding, wanted, material)] : [];
  });
  for (const output of outputs) judgeOutput(output, { tolerance, exactness, say });

  const builtin = builtinErrors(material, outputs);
  const most = (of: (output: OutputRuns) => number) => bounded(Math.max(...outputs.map(of)));
  const nmse = most(({ errors }) => errors.nmse);
  const ok = !findings.some(({ severity }) => severity === 'error');
  if (ok && isCoarse(nmse, builtin?.nmse, exactness)) {
    const beside = builtin ? ` and the error of the built-in kernel, ${brief(builtin.nmse)}` : '';
    say(
      'lower_precision_than_builtin',
      `NMSE ${brief(nmse)} is within the tolerance (${brief(tolerance.nmse)}), but far above the rounding error of this op${beside}: check for f16 arithmetic, and for constants and sums with too few bits`,
      'warning',
    );
  }
  const worst = outputs.reduce((a, b) => (excess(b, tolerance) > excess(a, tolerance) ? b : a));
  const index = worst.errors.worst;
  const verdict: CaseVerdict = {
    case: one.name,
    ok,
    nmse,
    nmse_limit: tolerance.nmse,
    max_abs: most(({ errors }) => errors.maxAbs),
    max_rel: most(({ errors }) => errors.maxRel),
    matched_ratio: Math.min(...outputs.map(({ errors }) => errors.matchedRatio)),
    worst: {
      output: worst.binding.name,
      index,
      expected: worst.expected.values[index] ?? Number.NaN,
      got: worst.worse.values[index] ?? Number.NaN,
    },
    ...(builtin ? { builtin } : {}),
  };
  return { verdict, findings };
}

/** Errors relative to the tolerance, to select the output that the verdict shows. */
const excess = ({ errors }: OutputRuns, tolerance: Tolerance): number =>
  Math.max(errors.nmse / (tolerance.nmse || 1), errors.maxPart / (tolerance.max_abs || 1));

function builtinErrors(
  { builtin, tolerance }: CaseMaterial,
  outputs: readonly OutputRuns[],
): { nmse: number; max_abs: number } | undefined {
  if (!builtin) return undefined;
  const all = outputs.flatMap(({ binding, expected, rowLength }) => {
    const words = builtin[binding.name];
    const values = words && elementsOf(binding.dtype ?? 'f32', words).values;
    return values ? [measure(expected, values, rowLength, tolerance)] : [];
  });
  if (all.length === 0) return undefined;
  return {
    nmse: bounded(Math.max(...all.map(({ nmse }) => nmse))),
    max_abs: bounded(Math.max(...all.map(({ maxAbs }) => maxAbs))),
  };
}

/** JSON cannot represent infinity. */
const bounded = (value: number): number => Math.min(value, Number.MAX_VALUE);
