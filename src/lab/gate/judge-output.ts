/** Compares the results of two runs for one output of one case with the oracle. */
import type { ContractBinding, Exactness } from '../../../kernels/contracts.ts';
import { compileExpression, ExpressionError } from '../expression.ts';
import type { ExpectedOutput, Finding, ParityCase, Tolerance } from '../types.ts';
import { type Elements, elementsOf, poisonWord } from './elements.ts';
import type { CaseRun } from './run-case.ts';
import { brief, faultsOf, measure, type OutputErrors, rowFails, rowFactor, short } from './verdict.ts';

export interface OutputRuns {
  readonly binding: ContractBinding;
  readonly expected: ExpectedOutput;
  readonly rowLength: number;
  readonly first: Elements;
  readonly second: Elements;
  /** Results of the run on perturbed inputs, which precedes the second run. */
  readonly between: Elements;
  /** Contents before the first run. */
  readonly before: Elements;
  readonly firstErrors: OutputErrors;
  readonly secondErrors: OutputErrors;
  /** Errors of the run with the larger errors. */
  readonly errors: OutputErrors;
  readonly worse: Elements;
}

export function outputRuns(
  binding: ContractBinding,
  expected: ExpectedOutput,
  { run, one, tolerance }: { run: CaseRun; one: ParityCase; tolerance: Tolerance },
): OutputRuns {
  const elements = (from: Readonly<Record<string, Uint32Array<ArrayBuffer>>>) =>
    elementsOf(binding.dtype ?? 'f32', from[binding.name] ?? new Uint32Array(0));
  const first = elements(run.first.written);
  const second = elements(run.second.written);
  const rowLength = rowLengthOf(binding, one, expected.values.length);
  const firstErrors = measure(expected, first.values, rowLength, tolerance);
  const secondErrors = measure(expected, second.values, rowLength, tolerance);
  const secondIsWorse = secondErrors.nmse > firstErrors.nmse;
  return {
    binding,
    expected,
    rowLength,
    first,
    second,
    between: elements(run.between),
    before: elements(run.firstBefore),
    firstErrors,
    secondErrors,
    errors: secondIsWorse ? secondErrors : firstErrors,
    worse: secondIsWorse ? second : first,
  };
}

/** Elements of one row: of a token, if the output has one row for each token, else of the last dimension. */
function rowLengthOf(binding: ContractBinding, one: ParityCase, elements: number): number {
  const values = { ...one.params, ...one.dims };
  const ofRow = binding.shape[0] === 'tokens' ? binding.shape.slice(1) : binding.shape.slice(-1);
  try {
    return ofRow.reduce((product, text) => product * compileExpression(text).evaluate(values), 1);
  } catch (error) {
    // The shape contains a name that is not a dim of the op.
    if (error instanceof ExpressionError) return elements;
    throw error;
  }
}

export type Say = (code: string, message: string, severity?: Finding['severity']) => void;

export function judgeOutput(
  output: OutputRuns,
  { tolerance, exactness, say }: { tolerance: Tolerance; exactness: Exactness; say: Say },
): void {
  const { binding, expected, first, second } = output;
  const { name } = binding;
  const exact = exactness === 'exact' || binding.dtype === 'u32';
  const count = expected.values.length;
  const place = (index: number) =>
    `${name}[${index}] (row ${Math.floor(index / output.rowLength)}, column ${index % output.rowLength})`;

  const kept = find(count, (i) => isKept(expected, i) && !keeps(output, i));
  if (kept >= 0) {
    say('kept_changed', `${place(kept)} was changed, but the op must not write it`);
  }
  const unwritten = unwrittenOf(output);
  if (unwritten.count > 0) {
    const all =
      unwritten.count === output.errors.compared ? 'nothing was' : `${unwritten.count} elements were not`;
    say(
      'unwritten_output',
      `${all} written to ${name}, first ${place(unwritten.first)}: write every row and column for every dispatch size`,
    );
    return;
  }
  const faults = (which: Elements) => faultText(output, which, { tolerance, exact, place });
  const [firstFault, secondFault] = [faults(first), faults(second)];
  const differing = find(count, (i) => isCompared(expected, i) && first.bits[i] !== second.bits[i]);
  if (firstFault) {
    const fault = output.worse === second ? (secondFault ?? firstFault) : firstFault;
    say(fault.code, fault.message);
  }
  if (differing < 0) return;
  const text = `${place(differing)} is ${short(first.values[differing])} in one run and ${short(second.values[differing])} in the other, on the same inputs`;
  if (!firstFault && !secondFault) {
    const message = `${text}, both within the tolerance: check for a race between invocations`;
    say('nondeterministic', message, 'warning');
    return;
  }
  const replayed = find(
    count,
    (i) =>
      isCompared(expected, i) &&
      second.bits[i] !== first.bits[i] &&
      second.bits[i] === output.between.bits[i],
  );
  if (replayed >= 0 && !firstFault) {
    say(
      'replayed_output',
      `${place(replayed)} still holds the result for the inputs of the previous run: write every element in every run, whatever ${name} contains`,
    );
    return;
  }
  say(
    'nondeterministic',
    `${text}: check for a race between invocations, and for reads of data from an earlier run`,
  );
}

/** Why the result of a run is wrong; undefined when it is correct. */
function faultText(
  output: OutputRuns,
  which: Elements,
  { tolerance, exact, place }: { tolerance: Tolerance; exact: boolean; place: (index: number) => string },
): { code: string; message: string } | undefined {
  const { binding, expected } = output;
  const errors = which === output.first ? output.firstErrors : output.secondErrors;
  const values = (index: number) =>
    `expected ${short(expected.values[index])}, got ${short(which.values[index])} at ${place(index)}`;
  if (errors.notFinite >= 0) {
    const hint = Number.isFinite(expected.values[errors.notFinite])
      ? `: check for reads of ${binding.name} (it contains NaN before the run), division by zero, and overflow`
      : '';
    return { code: 'not_finite', message: `${values(errors.notFinite)}${hint}` };
  }
  if (exact) {
    const wrong = find(
      expected.values.length,
      (i) => isCompared(expected, i) && which.values[i] !== expected.values[i],
    );
    return wrong < 0
      ? undefined
      : { code: 'wrong_result', message: `${values(wrong)}: exact values are required` };
  }
  const faults = faultsOf(errors, tolerance);
  if (faults.length > 0)
    return { code: 'wrong_result', message: `${values(errors.worst)}: ${faults.join('; ')}` };
  if (!rowFails(errors, tolerance)) return undefined;
  const { first, nmse } = errors.worstRow;
  return {
    code: 'wrong_rows',
    message: `the row of ${place(first)} has NMSE ${brief(nmse)}; the limit for a single row is ${brief(rowFactor * tolerance.nmse)}, although the mean of all rows is within the tolerance: compute every row in full`,
  };
}

const isKept = ({ kept, open }: ExpectedOutput, i: number): boolean => Boolean(kept?.[i]) && !open?.[i];
const isCompared = ({ kept, open }: ExpectedOutput, i: number): boolean => !kept?.[i] && !open?.[i];

/** Whether both runs left an element unchanged. */
function keeps({ binding, first, second, before }: OutputRuns, i: number): boolean {
  if (first.bits[i] !== before.bits[i]) return false;
  return second.bits[i] === (binding.role === 'out' ? largePoison(binding, i) : before.bits[i]);
}

/** Bits of an `out` element before the second buffers were first used. */
function largePoison({ dtype = 'f32' }: ContractBinding, i: number): number {
  const word = poisonWord(dtype, 'large');
  if (dtype !== 'f16') return word;
  return i % 2 === 0 ? word & 0xffff : word >>> 16;
}

/** Counts the elements that still contain the poison value in both runs. */
function unwrittenOf(output: OutputRuns): { count: number; first: number } {
  let count = 0;
  let first = -1;
  const { binding, expected } = output;
  if (binding.role !== 'out') return { count, first };
  for (let i = 0; i < expected.values.length; i++) {
    if (!isCompared(expected, i) || !keeps(output, i)) continue;
    if (first < 0) first = i;
    count += 1;
  }
  return { count, first };
}

function find(count: number, holds: (index: number) => boolean): number {
  for (let i = 0; i < count; i++) if (holds(i)) return i;
  return -1;
}
