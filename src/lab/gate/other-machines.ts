/**
 * Runs a kernel that is correct on this adapter in the emulator, in subgroups of the sizes that other adapters have. What it finds
 * is a warning: the kernel may be used here.
 */
import { type Contract, packUniform } from '../../../kernels/contracts.ts';
import { EmulatedKernel } from '../emulator/emulate.ts';
import { EmulationError } from '../emulator/emulation-error.ts';
import type { Finding as EmulatorFinding } from '../emulator/tracer.ts';
import { exactnessOf } from '../ops/exactness.ts';
import type { ExpectedOutput, Finding, ParityCase, Tolerance } from '../types.ts';
import type { Grid } from './dispatch.ts';
import { elementsOf, poisonWord } from './elements.ts';
import { rowLengthOf } from './judge-output.ts';
import { describeExcess, formatValue, measureErrors } from './output-errors.ts';
import type { Reference } from './references.ts';
import { inputWordsByName } from './run-case.ts';

/** Lanes of the subgroups of software adapters, of Intel's, NVIDIA's and Apple's GPUs, and of some of AMD's. */
const subgroupSizes = [4, 8, 16, 32, 64] as const;
/**
 * Limits of what is emulated, in all about half a second for each size: turns of loops and calls, invocations, and invocations times
 * tokens of the source, for kernels without loops.
 */
const maxTurns = 400_000;
const maxInvocations = 16_384;
const maxInvocationTokens = 20e6;

export interface OtherMachinesTask {
  readonly contract: Contract;
  readonly source: string;
  readonly entryPoint: string;
  readonly overrides: Readonly<Record<string, number>>;
  readonly cases: readonly ParityCase[];
  /** Lanes of this adapter's subgroups, where the size is fixed. */
  readonly ownSize: number | undefined;
  readonly invocationsPerWorkgroup: number;
  /** Tokens of the source. */
  readonly tokens: number;
  /** @throws RangeError */
  readonly gridFor: (parityCase: ParityCase) => Grid;
  readonly referenceOf: (parityCase: ParityCase) => Reference;
  readonly toleranceFor: (format?: string) => Tolerance;
}

/** What would be wrong on adapters with other subgroups, and races, which may be wrong on any. */
export function checkOtherMachines(task: OtherMachinesTask): Finding[] {
  let reason = notEmulated(task, 'every case has too many invocations');
  for (const chosen of candidateCases(task)) {
    const result = checkCase(task, chosen);
    if (Array.isArray(result)) return result;
    reason = result;
  }
  return [reason];
}

/** @returns why the case cannot be emulated, if it cannot */
function checkCase(task: OtherMachinesTask, chosen: ChosenCase): Finding[] | Finding {
  try {
    const kernel = new EmulatedKernel(task.source, {
      entryPoint: task.entryPoint,
      overrides: task.overrides,
      isTraced: true,
    });
    const sizes = usesSubgroups(task) ? subgroupSizes : [task.ownSize ?? 32];
    const results = sizes.map((size) => ({ size, ...emulate(task, kernel, chosen, size) }));
    const own = results.find(({ size }) => size === task.ownSize);
    // Where the emulator disagrees with this adapter, it says nothing about others.
    if (own?.excess !== undefined) return [];
    return [...locatedFindings(results), ...wrongSizes(results, chosen.parityCase)];
  } catch (error) {
    if (!(error instanceof EmulationError)) throw error;
    const { line, column, length } = error.location ?? {};
    const location =
      line === undefined || column === undefined || length === undefined ? {} : { line, column, length };
    return { ...notEmulated(task, error.message), ...location };
  }
}

/** A warning where subgroups have other sizes on other adapters: then nothing says whether the kernel is correct there. */
const notEmulated = (task: OtherMachinesTask, reason: string): Finding =>
  usesSubgroups(task)
    ? {
        code: 'not_emulated',
        severity: 'warning',
        message: `not checked for races, nor for subgroups of other sizes, so the kernel may be wrong on adapters that have them: ${reason}. Shorter loops in the smaller cases let the emulator check it`,
      }
    : { code: 'not_emulated', severity: 'info', message: `not checked for races: ${reason}` };

const usesSubgroups = ({ source }: OtherMachinesTask): boolean => /\benable\s[^;]*\bsubgroups\b/.test(source);

interface ChosenCase {
  readonly parityCase: ParityCase;
  readonly grid: Grid;
}

/** Cases are tried until one has few enough turns: the largest, and smaller ones. */
const maxTried = 3;
const nextFraction = 1 / 4;

/**
 * The case with the most invocations that is small enough, because more of them take more of the kernel's paths; then one of a
 * quarter of them, which may have fewer turns of loops.
 */
function candidateCases({
  cases,
  gridFor,
  invocationsPerWorkgroup,
  tokens,
}: OtherMachinesTask): ChosenCase[] {
  const limit = Math.min(maxInvocations, maxInvocationTokens / tokens);
  const sized = cases
    .filter(({ hasSharedOutputs }) => !hasSharedOutputs)
    .map((parityCase) => {
      const grid = gridFor(parityCase);
      return { parityCase, grid, invocations: grid[0] * grid[1] * grid[2] * invocationsPerWorkgroup };
    })
    .filter(({ invocations }) => invocations <= limit)
    .sort((a, b) => b.invocations - a.invocations);
  const chosen: typeof sized = [];
  for (const one of sized) {
    const last = chosen.at(-1);
    if (!last || one.invocations <= last.invocations * nextFraction) chosen.push(one);
    if (chosen.length === maxTried) break;
  }
  return chosen;
}

interface Emulation {
  readonly findings: readonly EmulatorFinding[];
  /** Why the results are wrong; undefined when they are correct. */
  readonly excess: string | undefined;
}

function emulate(
  { contract, toleranceFor, referenceOf }: OtherMachinesTask,
  kernel: EmulatedKernel,
  { parityCase, grid }: ChosenCase,
  subgroupSize: number,
): Emulation {
  const { expected, outWords } = referenceOf(parityCase);
  const inputs = inputWordsByName(contract, parityCase);
  const words: Record<string, Uint32Array<ArrayBuffer>> = {};
  const byNumber = contract.bindings.map((binding): ArrayBufferView => {
    if (binding.role === 'uniform') {
      const values = binding.name === 'step' ? { tokens: parityCase.dims['tokens'] ?? 1 } : parityCase.params;
      return new Uint8Array(packUniform(binding, values));
    }
    const given = inputs[binding.name];
    if (given && binding.role === 'in') return given;
    const contents = given
      ? given.slice()
      : new Uint32Array(outWords[binding.name] ?? 0).fill(poisonWord(binding.dtype ?? 'f32', 'nan'));
    words[binding.name] = contents;
    return contents;
  });
  const buffers = Object.fromEntries(
    kernel.resources.map(({ name, binding }) => [name, byNumber[binding] ?? new Uint32Array(4)]),
  );
  const findings = kernel.dispatch({ buffers, grid, subgroupSize, findsRaces: true, maxTurns });
  const tolerance = toleranceFor(parityCase.format);
  for (const binding of contract.bindings) {
    const output = expected[binding.name];
    const got = words[binding.name];
    if (!output || !got) continue;
    const { values } = elementsOf(binding.dtype ?? 'f32', got);
    const excess = excessOf(
      contract,
      parityCase,
      tolerance,
      output,
      values,
      rowLengthOf(binding, parityCase, output.values.length),
    );
    if (excess !== undefined) return { findings, excess: `${binding.name}${excess}` };
  }
  return { findings, excess: undefined };
}

function excessOf(
  contract: Contract,
  parityCase: ParityCase,
  tolerance: Tolerance,
  expected: ExpectedOutput,
  values: ArrayLike<number>,
  rowLength: number,
): string | undefined {
  const errors = measureErrors(expected, values, rowLength, tolerance);
  const limits =
    exactnessOf(contract, parityCase.format) === 'exact' ? { ...tolerance, nmse: 0, max_abs: 0 } : tolerance;
  const [first] = describeExcess(errors, limits);
  if (first === undefined) return undefined;
  const at = errors.worstIndex;
  return `[${at}] is ${formatValue(values[at])} instead of ${formatValue(expected.values[at])} (${first})`;
}

type Sized = Emulation & { readonly size: number };

/** Findings with a place in the source, each once, with the sizes at which it occurs. */
function locatedFindings(results: readonly Sized[]): Finding[] {
  const groups = Map.groupBy(
    results.flatMap(({ size, findings }) => findings.map((finding) => ({ size, finding }))),
    ({ finding: { kind, line, column } }) => `${kind} ${line} ${column}`,
  );
  return [...groups.values()].flatMap((group) => {
    const [{ finding }] = group as [(typeof group)[number]];
    // The checked build on the adapter finds them, and counts them.
    if (finding.kind === 'index_out_of_bounds') return [];
    const { kind, message, line, column, length } = finding;
    const where =
      group.length < results.length ? `in subgroups of ${listed(group.map(({ size }) => size))}: ` : '';
    return [
      { code: kind, severity: 'warning' as const, message: `${where}${message}`, line, column, length },
    ];
  });
}

function wrongSizes(results: readonly Sized[], { name }: ParityCase): Finding[] {
  const wrong = results.filter(({ excess }) => excess !== undefined);
  const [first] = wrong;
  if (!first) return [];
  const correct = results.filter(({ excess }) => excess === undefined).map(({ size }) => size);
  return [
    {
      code: 'wrong_in_other_subgroups',
      severity: 'warning',
      message:
        `wrong on adapters with subgroups of ${listed(wrong.map(({ size }) => size))}, correct with ${listed(correct)} (emulated): ` +
        `with ${first.size}, ${first.excess}, case ${name}. Take the size from @builtin(subgroup_size), or register a kernel for each size`,
    },
  ];
}

const listed = (sizes: readonly number[]): string =>
  sizes.length === 0
    ? 'none'
    : sizes.length === 1
      ? String(sizes[0])
      : `${sizes.slice(0, -1).join(', ')} and ${sizes.at(-1)}`;
