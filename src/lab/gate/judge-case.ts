/** One case's runs against the oracle: a verdict in numbers, and findings that say what to do. */
import type { Contract, ContractBinding } from '../../../kernels/contracts.ts';
import { compileExpression, ExpressionError } from '../expression.ts';
import type { CaseVerdict, ExpectedOutput, Finding, ParityCase, Tolerance } from '../types.ts';
import { type Elements, elementsOf, poisonWord } from './elements.ts';
import type { CaseRun } from './run-case.ts';
import { faultsOf, isCoarse, measure, type OutputErrors, rowFails, rowFactor, short } from './verdict.ts';

export interface Judged {
  readonly verdict: CaseVerdict;
  readonly findings: readonly Finding[];
}

export interface CaseMaterial {
  readonly contract: Contract;
  readonly one: ParityCase;
  readonly run: CaseRun;
  readonly expected: Readonly<Record<string, ExpectedOutput>>;
  /** Words that the built-in kernel left in writable bindings. */
  readonly builtin?: Readonly<Record<string, Uint32Array<ArrayBuffer>>> | undefined;
  readonly tolerance: Tolerance;
}

interface Output {
  readonly binding: ContractBinding;
  readonly expected: ExpectedOutput;
  readonly rowLength: number;
  readonly first: Elements;
  readonly second: Elements;
  readonly between: Elements;
  readonly before: Elements;
  /** Of the worse of both runs. */
  readonly errors: OutputErrors;
  readonly worse: Elements;
}

export function judgeCase(material: CaseMaterial): Judged {
  const { contract, one, run, tolerance } = material;
  const findings: Finding[] = [];
  const say = (code: string, message: string, severity: Finding['severity'] = 'error') =>
    findings.push({ code, severity, message: `${message}, case ${one.name}` });

  for (const [when, { inputs, canaries }] of [
    ['first', run.first],
    ['second', run.second],
  ] as const) {
    for (const { binding, word } of inputs) {
      say('input_changed', `the ${when} run changed the input ${binding} at word ${word}: inputs must stay`);
    }
    for (const { binding, word } of canaries) {
      const where = word < 0 ? `${-word} words before` : `${word} words behind`;
      say('canary_changed', `the ${when} run wrote ${where} ${binding}: stay inside the binding`);
    }
  }

  const outputs = contract.bindings.flatMap((binding) => {
    const expected = material.expected[binding.name];
    return expected ? [outputOf(material, binding, expected)] : [];
  });
  for (const output of outputs) judgeOutput(output, { material, say });

  const worst = outputs.reduce((a, b) => (severityOf(b, tolerance) > severityOf(a, tolerance) ? b : a));
  const builtin = builtinErrors(material, outputs);
  const nmse = Math.max(...outputs.map(({ errors }) => errors.nmse));
  const fine = !findings.some(({ severity }) => severity === 'error');
  if (fine && isCoarse(nmse, builtin?.nmse, contract.exactness)) {
    const beside = builtin ? `, the built-in's is ${short(builtin.nmse)}` : '';
    say(
      'lower_precision_than_builtin',
      `NMSE ${short(nmse)} is tolerated (${short(tolerance.nmse)}), but far above the rounding of this op${beside}: look for arithmetic in f16, or for sums and constants of too few bits`,
      'warning',
    );
  }
  const verdict: CaseVerdict = {
    case: one.name,
    ok: fine,
    nmse: bounded(nmse),
    max_abs: bounded(Math.max(...outputs.map(({ errors }) => errors.maxAbs))),
    max_rel: bounded(Math.max(...outputs.map(({ errors }) => errors.maxRel))),
    matched_ratio: Math.min(...outputs.map(({ errors }) => errors.matchedRatio)),
    worst: {
      output: worst.binding.name,
      index: worst.errors.worst,
      expected: worst.expected.values[worst.errors.worst] ?? Number.NaN,
      got: worst.worse.values[worst.errors.worst] ?? Number.NaN,
    },
    ...(builtin ? { builtin: { nmse: bounded(builtin.nmse), max_abs: bounded(builtin.maxAbs) } } : {}),
  };
  return { verdict, findings };
}

function outputOf(material: CaseMaterial, binding: ContractBinding, expected: ExpectedOutput): Output {
  const { run, one, tolerance } = material;
  const dtype = binding.dtype ?? 'f32';
  const words = (from: Readonly<Record<string, Uint32Array>>) =>
    elementsOf(dtype, (from[binding.name] ?? new Uint32Array(0)) as Uint32Array<ArrayBuffer>);
  const [first, second] = [words(run.first.written), words(run.second.written)];
  const rowLength = rowLengthOf(binding, one, expected.values.length);
  const errorsOf = ({ values }: Elements) => measure(expected, values, rowLength, tolerance);
  const [firstErrors, secondErrors] = [errorsOf(first), errorsOf(second)];
  const secondIsWorse = secondErrors.nmse > firstErrors.nmse;
  return {
    binding,
    expected,
    rowLength,
    first,
    second,
    between: words(run.between),
    before: words(run.firstBefore),
    errors: secondIsWorse ? secondErrors : firstErrors,
    worse: secondIsWorse ? second : first,
  };
}

/** Of an output that has a row a token, its length; else the last dimension. */
function rowLengthOf(binding: ContractBinding, one: ParityCase, elements: number): number {
  const values = { ...one.params, ...one.dims };
  const ofRow = binding.shape[0] === 'tokens' ? binding.shape.slice(1) : binding.shape.slice(-1);
  try {
    return ofRow.reduce((product, text) => product * compileExpression(text).evaluate(values), 1);
  } catch (error) {
    // A size that the op's dims do not tell.
    if (error instanceof ExpressionError) return elements;
    throw error;
  }
}

type Say = (code: string, message: string, severity?: Finding['severity']) => void;

function judgeOutput(output: Output, { material, say }: { material: CaseMaterial; say: Say }): void {
  const { contract, tolerance } = material;
  const { binding, expected, errors, first, second, between, worse } = output;
  const { name } = binding;
  const exact = contract.exactness === 'exact' || binding.dtype === 'u32';
  const place = (index: number) => {
    const row = Math.floor(index / output.rowLength);
    return `${name}[${index}] (row ${row}, column ${index % output.rowLength})`;
  };
  const values = (index: number, got: Elements = worse) =>
    `expected ${short5(expected.values[index])}, got ${short5(got.values[index])} at ${place(index)}`;

  const kept = find(expected.values.length, (i) => isKept(expected, i) && !keeps(output, i));
  if (kept >= 0) {
    say('kept_changed', `${place(kept)} must keep what it held: it lies outside of what the op writes`);
  }
  if (errors.compared === 0) return;
  const unwritten = unwrittenOf(output);
  if (unwritten.count > 0) {
    const all = unwritten.count === errors.compared ? 'nothing was' : `${unwritten.count} elements were not`;
    say(
      'unwritten_output',
      `${all} written to ${name}, first ${place(unwritten.first)}: write every row and column, whatever the dispatch's size`,
    );
    return;
  }
  if (errors.notFinite >= 0) {
    const finite = Number.isFinite(expected.values[errors.notFinite]);
    const hint = finite
      ? `: look for reads of ${name} (it holds NaN before the run), for a division by zero, for an overflow`
      : '';
    say('not_finite', `${values(errors.notFinite)}${hint}`);
  } else if (errors.nmse > 0 || exact) {
    const wrong = exact
      ? find(expected.values.length, (i) => isCompared(expected, i) && worse.values[i] !== expected.values[i])
      : -1;
    const faults = exact ? [] : faultsOf(errors, tolerance);
    if (wrong >= 0) say('wrong_result', `${values(wrong)}: exact values are required`);
    else if (faults.length > 0) say('wrong_result', `${values(errors.worst)}: ${faults.join('; ')}`);
    else if (rowFails(errors, tolerance)) {
      say(
        'wrong_rows',
        `the row of ${place(errors.worstRow.first)} has an NMSE of ${short(errors.worstRow.nmse)} where ${short(rowFactor * tolerance.nmse)} is tolerated of a single row, though the mean over all is small: do every row the same work`,
      );
    }
  }

  const differing = find(
    expected.values.length,
    (i) => isCompared(expected, i) && first.bits[i] !== second.bits[i],
  );
  if (differing < 0) return;
  const firstFaults = failing(first, output, tolerance, exact);
  const secondFaults = failing(second, output, tolerance, exact);
  const text = `${place(differing)} is ${short5(first.values[differing])} in one run and ${short5(second.values[differing])} in the other, on the same inputs`;
  if (!firstFaults && !secondFaults) {
    say(
      'nondeterministic',
      `${text}, both within the tolerance: look for a race between invocations`,
      'warning',
    );
    return;
  }
  const replayed = find(
    expected.values.length,
    (i) => isCompared(expected, i) && second.bits[i] !== first.bits[i] && second.bits[i] === between.bits[i],
  );
  if (replayed >= 0 && !firstFaults) {
    say(
      'replayed_output',
      `${place(replayed)} still holds the result for the inputs of the run before: compute every element anew, whatever ${name} holds`,
    );
    return;
  }
  say(
    'nondeterministic',
    `${text}: look for a race between invocations, and for reads of what an earlier run left`,
  );
}

function failing(got: Elements, output: Output, tolerance: Tolerance, exact: boolean): boolean {
  const { expected, rowLength } = output;
  if (exact) {
    return (
      find(expected.values.length, (i) => isCompared(expected, i) && got.values[i] !== expected.values[i]) >=
      0
    );
  }
  const errors = measure(expected, got.values, rowLength, tolerance);
  return faultsOf(errors, tolerance).length > 0 || rowFails(errors, tolerance);
}

const isKept = ({ kept, open }: ExpectedOutput, i: number): boolean => Boolean(kept?.[i]) && !open?.[i];
const isCompared = ({ kept, open }: ExpectedOutput, i: number): boolean => !kept?.[i] && !open?.[i];

/** Both runs left an element as it was before. */
function keeps({ binding, first, second, before }: Output, i: number): boolean {
  if (first.bits[i] !== before.bits[i]) return false;
  return second.bits[i] === (binding.role === 'out' ? poisonBits(binding, i) : before.bits[i]);
}

/** Of an element before the second run of an output. */
function poisonBits({ dtype = 'f32' }: ContractBinding, i: number): number {
  const word = poisonWord(dtype, 'large');
  return dtype === 'f16' ? (i % 2 === 0 ? word & 0xffff : word >>> 16) : word;
}

/** Elements that still hold the poison of both runs. */
function unwrittenOf(output: Output): { count: number; first: number } {
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

/** How much too large the errors are, to pick the output that a verdict shows. */
const severityOf = ({ errors }: Output, tolerance: Tolerance): number =>
  Math.max(errors.nmse / (tolerance.nmse || 1), errors.maxPart / (tolerance.max_abs || 1));

function builtinErrors(
  { builtin, tolerance }: CaseMaterial,
  outputs: readonly Output[],
): { nmse: number; maxAbs: number } | undefined {
  if (!builtin) return undefined;
  const all = outputs.flatMap(({ binding, expected, rowLength }) => {
    const words = builtin[binding.name];
    if (!words) return [];
    return [measure(expected, elementsOf(binding.dtype ?? 'f32', words).values, rowLength, tolerance)];
  });
  if (all.length === 0) return undefined;
  return {
    nmse: Math.max(...all.map(({ nmse }) => nmse)),
    maxAbs: Math.max(...all.map(({ maxAbs }) => maxAbs)),
  };
}

function find(count: number, holds: (index: number) => boolean): number {
  for (let i = 0; i < count; i++) if (holds(i)) return i;
  return -1;
}

const short5 = (value: number | undefined): string =>
  value === undefined ? 'nothing' : String(Number(value.toPrecision(6)));

/** JSON has no infinity. */
const bounded = (value: number): number => Math.min(value, Number.MAX_VALUE);
