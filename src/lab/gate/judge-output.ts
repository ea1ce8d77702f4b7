/** Compares the results of two runs for one output of one case with the oracle. */
import type { ContractBinding, Exactness } from '../../../kernels/contracts.ts';
import { compileExpression, ExpressionError } from '../expression.ts';
import type { ExpectedOutput, Finding, ParityCase, Tolerance } from '../types.ts';
import { type Elements, elementsOf, poisonWord } from './elements.ts';
import type { CaseRun } from './run-case.ts';
import {
  formatError,
  describeExcess,
  measureErrors,
  type OutputErrors,
  isRowOverLimit,
  maxRowNmseFactor,
  formatValue,
} from './output-errors.ts';

export interface OutputRuns {
  readonly binding: ContractBinding;
  readonly expected: ExpectedOutput;
  readonly rowLength: number;
  readonly first: Elements;
  readonly second: Elements;
  /** Results of the run on perturbed inputs, which precedes the second run. */
  readonly perturbed: Elements;
  /** Contents before the first run. */
  readonly initial: Elements;
  readonly firstErrors: OutputErrors;
  readonly secondErrors: OutputErrors;
  /** Errors of the run with the larger errors. */
  readonly errors: OutputErrors;
  readonly worseRun: Elements;
}

export function buildOutputRuns(
  binding: ContractBinding,
  expected: ExpectedOutput,
  { run, parityCase, tolerance }: { run: CaseRun; parityCase: ParityCase; tolerance: Tolerance },
): OutputRuns {
  const elements = (from: Readonly<Record<string, Uint32Array<ArrayBuffer>>>) =>
    elementsOf(binding.dtype ?? 'f32', from[binding.name] ?? new Uint32Array(0));
  const first = elements(run.first.written);
  const second = elements(run.second.written);
  const rowLength = rowLengthOf(binding, parityCase, expected.values.length);
  const firstErrors = measureErrors(expected, first.values, rowLength, tolerance);
  const secondErrors = measureErrors(expected, second.values, rowLength, tolerance);
  const secondIsWorse = secondErrors.nmse > firstErrors.nmse;
  return {
    binding,
    expected,
    rowLength,
    first,
    second,
    perturbed: elements(run.perturbedOutputs),
    initial: elements(run.initialContents),
    firstErrors,
    secondErrors,
    errors: secondIsWorse ? secondErrors : firstErrors,
    worseRun: secondIsWorse ? second : first,
  };
}

/** Elements of one row: of a token, if the output has one row for each token, else of the last dimension. */
export function rowLengthOf(binding: ContractBinding, parityCase: ParityCase, elements: number): number {
  const values = { ...parityCase.params, ...parityCase.dims };
  const rowShape = binding.shape[0] === 'tokens' ? binding.shape.slice(1) : binding.shape.slice(-1);
  try {
    return rowShape.reduce((product, text) => product * compileExpression(text).evaluate(values), 1);
  } catch (error) {
    // The shape contains a name that is not a dim of the op.
    if (error instanceof ExpressionError) return elements;
    throw error;
  }
}

export type ReportFinding = (code: string, message: string, severity?: Finding['severity']) => void;

export function judgeOutput(
  output: OutputRuns,
  { tolerance, exactness, report }: { tolerance: Tolerance; exactness: Exactness; report: ReportFinding },
): void {
  const { binding, expected, first, second } = output;
  const { name } = binding;
  const exact = exactness === 'exact' || binding.dtype === 'u32';
  const count = expected.values.length;
  const describeElement = (index: number) =>
    `${name}[${index}] (row ${Math.floor(index / output.rowLength)}, column ${index % output.rowLength})`;

  const changedIndex = firstIndexWhere(
    count,
    (i) => isPreserved(expected, i) && !isUnchangedByBothRuns(output, i),
  );
  if (changedIndex >= 0) {
    report('kept_changed', `${describeElement(changedIndex)} was changed, but the op must not write it`);
  }
  const unwritten = countUnwritten(output);
  if (unwritten.count > 0) {
    const subject =
      unwritten.count === output.errors.compared ? 'nothing was' : `${unwritten.count} elements were not`;
    report(
      'unwritten_output',
      `${subject} written to ${name}, first ${describeElement(unwritten.first)}: write every row and column for every dispatch size`,
    );
    return;
  }
  const faultOf = (elements: Elements) =>
    findRunFault(output, elements, { tolerance, exact, describeElement });
  const [firstFault, secondFault] = [faultOf(first), faultOf(second)];
  const differingIndex = firstIndexWhere(
    count,
    (i) => isCompared(expected, i) && first.bits[i] !== second.bits[i],
  );
  if (firstFault) {
    const fault = output.worseRun === second ? (secondFault ?? firstFault) : firstFault;
    report(fault.code, fault.message);
  }
  if (differingIndex < 0) return;
  const text = `${describeElement(differingIndex)} is ${formatValue(first.values[differingIndex])} in one run and ${formatValue(second.values[differingIndex])} in the other, on the same inputs`;
  if (!firstFault && !secondFault) {
    const message = `${text}, both within the tolerance: check for a race between invocations`;
    report('nondeterministic', message, 'warning');
    return;
  }
  const replayedIndex = firstIndexWhere(
    count,
    (i) =>
      isCompared(expected, i) &&
      second.bits[i] !== first.bits[i] &&
      second.bits[i] === output.perturbed.bits[i],
  );
  if (replayedIndex >= 0 && !firstFault) {
    report(
      'replayed_output',
      `${describeElement(replayedIndex)} still holds the result for the inputs of the previous run: write every element in every run, whatever ${name} contains`,
    );
    return;
  }
  report(
    'nondeterministic',
    `${text}: check for a race between invocations, and for reads of data from an earlier run`,
  );
}

/** Why the result of a run is wrong; undefined when it is correct. */
function findRunFault(
  output: OutputRuns,
  elements: Elements,
  {
    tolerance,
    exact,
    describeElement,
  }: { tolerance: Tolerance; exact: boolean; describeElement: (index: number) => string },
): { code: string; message: string } | undefined {
  const { binding, expected } = output;
  const errors = elements === output.first ? output.firstErrors : output.secondErrors;
  const values = (index: number) =>
    `expected ${formatValue(expected.values[index])}, got ${formatValue(elements.values[index])} at ${describeElement(index)}`;
  if (errors.nonFiniteIndex >= 0) {
    const hint = Number.isFinite(expected.values[errors.nonFiniteIndex])
      ? `: check for reads of ${binding.name} (it contains NaN before the run), division by zero, and overflow`
      : '';
    return { code: 'not_finite', message: `${values(errors.nonFiniteIndex)}${hint}` };
  }
  if (exact) {
    const wrong = firstIndexWhere(
      expected.values.length,
      (i) => isCompared(expected, i) && elements.values[i] !== expected.values[i],
    );
    return wrong < 0
      ? undefined
      : { code: 'wrong_result', message: `${values(wrong)}: exact values are required` };
  }
  const faultOf = describeExcess(errors, tolerance);
  if (faultOf.length > 0)
    return { code: 'wrong_result', message: `${values(errors.worstIndex)}: ${faultOf.join('; ')}` };
  if (!isRowOverLimit(errors, tolerance)) return undefined;
  const { first, nmse } = errors.worstRow;
  return {
    code: 'wrong_rows',
    message: `the row of ${describeElement(first)} has NMSE ${formatError(nmse)}; the limit for a single row is ${formatError(maxRowNmseFactor * tolerance.nmse)}, although the mean of all rows is within the tolerance: compute every row in full`,
  };
}

const isPreserved = ({ preserved, unspecified }: ExpectedOutput, i: number): boolean =>
  Boolean(preserved?.[i]) && !unspecified?.[i];
const isCompared = ({ preserved, unspecified }: ExpectedOutput, i: number): boolean =>
  !preserved?.[i] && !unspecified?.[i];

/** Whether both runs left an element unchanged. */
function isUnchangedByBothRuns({ binding, first, second, initial }: OutputRuns, i: number): boolean {
  if (first.bits[i] !== initial.bits[i]) return false;
  return second.bits[i] === (binding.role === 'out' ? largePoisonBits(binding, i) : initial.bits[i]);
}

/** Bits of an `out` element before the second buffers were first used. */
function largePoisonBits({ dtype = 'f32' }: ContractBinding, i: number): number {
  const word = poisonWord(dtype, 'large');
  if (dtype !== 'f16') return word;
  return i % 2 === 0 ? word & 0xffff : word >>> 16;
}

/** Counts the elements that still contain the poison value in both runs. */
function countUnwritten(output: OutputRuns): { count: number; first: number } {
  let count = 0;
  let first = -1;
  const { binding, expected } = output;
  if (binding.role !== 'out') return { count, first };
  for (let i = 0; i < expected.values.length; i++) {
    if (!isCompared(expected, i) || !isUnchangedByBothRuns(output, i)) continue;
    if (first < 0) first = i;
    count += 1;
  }
  return { count, first };
}

function firstIndexWhere(count: number, holds: (index: number) => boolean): number {
  for (let i = 0; i < count; i++) if (holds(i)) return i;
  return -1;
}
