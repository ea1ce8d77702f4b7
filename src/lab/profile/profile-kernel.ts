/** What a kernel asks of a GPU's memory and of its schedulers, from an emulation of a few workgroups. It needs no GPU. */
import { assemble, type WgslSources } from '../../../kernels/assemble.ts';
import { type ContractBinding, packUniform } from '../../../kernels/contracts.ts';
import { type AdapterCaps, packParams } from '../../../kernels/define.ts';
import { AccessRecorder, type AccessSite, sectorBytes } from '../emulator/access-recorder.ts';
import { EmulatedKernel } from '../emulator/emulate.ts';
import { EmulationError } from '../emulator/emulation-error.ts';
import { compileExpression } from '../expression.ts';
import { type Grid, evaluateGrid } from '../gate/dispatch.ts';
import { wordCountOf } from '../gate/elements.ts';
import { inputWordsByName } from '../gate/run-case.ts';
import { defaultCombination } from '../gate/tunables.ts';
import type { BuiltinBinding, BuiltinStep, LabOp } from '../ops/index.ts';
import { declaredParams, selectSupportedCases } from '../params.ts';
import { tunedOverridesFor } from '../report-findings.ts';
import {
  type KernelRegistration,
  LabError,
  type LabProfile,
  type LiveShapes,
  type ParityCase,
  type ProfiledKernel,
  type ProfilePhase,
  type TunedShape,
} from '../types.ts';
import { overrideValues, reflect, variableSizeBytes, workgroupSize } from '../wgsl/reflect.ts';
import { hintsFor } from './hints.ts';
import { occupancyOf } from './occupancy.ts';

export interface ProfileTask {
  readonly op: LabOp;
  readonly registration: KernelRegistration;
  /** Weight formats of the resident model, used when the registration has no `dtypes`. */
  readonly formats: readonly string[];
  readonly live: LiveShapes;
  /** Overrides that the tuning sweep kept, by shape. */
  readonly tuning?: readonly TunedShape[] | undefined;
  /** Lanes of the emulated subgroups. */
  readonly lanes: number;
  readonly phase: ProfilePhase;
  /** Whether the hints are read on a software adapter. */
  readonly isSoftware: boolean;
  readonly wgsl: WgslSources;
  readonly seed: number;
}

/** Workgroups of which the accesses are recorded. Neighbors do the same, and the first are never partly idle. */
const sampledWorkgroups: Grid = [2, 1, 1];
/** Turns of loops and calls of an emulation: about three seconds. */
const maxTurns = 2e6;
const maxWorkgroups = 65_535;

/**
 * Profiles a kernel and the built-in kernels at the largest live shape that can be emulated.
 * @throws LabError `not_profiled` for a kernel that the emulator cannot run
 */
export function profileKernel(task: ProfileTask): LabProfile {
  const { op, registration, lanes } = task;
  const { contract } = op;
  const reflection = reflect(registration.source);
  const overridesFor = (parityCase: ParityCase) =>
    overrideValues(reflection, {
      ...defaultCombination(registration, reflection),
      ...registration.overrides,
      ...tunedOverridesFor(task, parityCase),
    });
  const { supported: cases } = selectSupportedCases(
    contract,
    declaredParams(contract, reflection),
    casesOf(task),
  );
  const sized = cases
    .flatMap((parityCase) => {
      try {
        const overrides = overridesFor(parityCase);
        const grid = evaluateGrid(registration.dispatch, { ...overrides, ...parityCase.dims }, maxWorkgroups);
        return [{ parityCase, grid, overrides }];
      } catch (error) {
        if (error instanceof RangeError) return [];
        throw error;
      }
    })
    .sort((a, b) => preference(task, b.parityCase) - preference(task, a.parityCase));
  let reason = `its dispatch rule is invalid for every live shape of ${contract.op}`;
  for (const { parityCase, grid, overrides } of sized) {
    try {
      return profileCase(task, parityCase, { grid, overrides });
    } catch (error) {
      if (!(error instanceof EmulationError)) throw error;
      const { line } = error.location ?? {};
      reason = `${error.message}${line === undefined ? '' : ` (line ${line})`}`;
    }
  }
  throw new LabError(
    'not_profiled',
    `The kernel '${registration.name}' cannot be profiled in subgroups of ${lanes}: ${reason}.`,
  );
}

/** Cases of live shapes; others where the model has none. */
function casesOf({ op, registration, formats, live, seed }: ProfileTask): readonly ParityCase[] {
  const all = op.cases({
    seed,
    formats: registration.dtypes ?? formats,
    live: live.byOp[op.contract.op],
  });
  const ofModel = all.filter(({ name }) => name.startsWith('live'));
  return ofModel.length > 0 ? ofModel : all;
}

/** A single token before several, or the reverse; among those, the most arithmetic. */
function preference({ op, phase }: ProfileTask, { dims, params }: ParityCase): number {
  const flops = compileExpression(op.contract.flops).evaluate({ ...params, ...dims });
  const isSingle = (dims['tokens'] ?? 1) === 1;
  return isSingle === (phase === 'decode') ? flops : -1 / flops;
}

function profileCase(
  task: ProfileTask,
  parityCase: ParityCase,
  { grid, overrides }: { grid: Grid; overrides: Readonly<Record<string, number>> },
): LabProfile {
  const { op, registration, lanes, wgsl, isSoftware } = task;
  const { contract } = op;
  const kernel = profileDispatch({
    name: registration.name,
    source: registration.source,
    entryPoint: registration.entry_point ?? 'main',
    overrides,
    buffers: contractBuffers(op, parityCase),
    grid,
    lanes,
  });
  const values = { ...parityCase.params, ...parityCase.dims };
  const flops = compileExpression(contract.flops).evaluate(values);
  const bytes = compileExpression(contract.bytes).evaluate(values);
  const builtin = profileBuiltin(op, parityCase, { lanes, wgsl });
  const profile = {
    kernel: registration.name,
    op: contract.op,
    case: parityCase.name,
    overrides,
    lanes,
    flops,
    bytes,
    profile: kernel,
    ...(builtin ? { builtin } : {}),
  };
  return {
    ...profile,
    hints: hintsFor(profile, {
      contract,
      source: registration.source,
      bytesOf: bytesByName(op, parityCase),
      isSoftware,
    }),
  };
}

/** The built-in kernels for GPUs on the same input; undefined where the engine has none, or the emulator cannot run them. */
function profileBuiltin(
  op: LabOp,
  parityCase: ParityCase,
  { lanes, wgsl }: Pick<ProfileTask, 'lanes' | 'wgsl'>,
): ProfiledKernel[] | undefined {
  const caps: AdapterCaps = { subgroupSize: lanes, f16: true, matrix: lanes === 32, software: false };
  const steps = op.builtin(parityCase, caps);
  const outWords = outWordsByName(op, parityCase);
  try {
    return steps?.map((step) => {
      const grid = step.kernel.grid(step.variant, step.params as never, step.dims);
      return profileDispatch({
        name: step.kernel.source,
        source: assemble(wgsl, step.kernel.source, step.variant),
        entryPoint: 'main',
        overrides: {},
        buffers: builtinBuffers(step, parityCase, outWords),
        grid,
        lanes,
      });
    });
  } catch (error) {
    if (error instanceof EmulationError) return undefined;
    throw error;
  }
}

interface ProfiledDispatch {
  readonly name: string;
  readonly source: string;
  readonly entryPoint: string;
  readonly overrides: Readonly<Record<string, number>>;
  /** By binding number, or by name of the variable. */
  readonly buffers: (name: string, binding: number) => ArrayBufferView;
  readonly grid: Grid;
  readonly lanes: number;
}

function profileDispatch({
  name,
  source,
  entryPoint,
  overrides,
  buffers,
  grid,
  lanes,
}: ProfiledDispatch): ProfiledKernel {
  const emulated = new EmulatedKernel(source, { entryPoint, overrides, isTraced: true });
  let recorder: AccessRecorder | undefined;
  emulated.dispatch({
    buffers: Object.fromEntries(emulated.resources.map((one) => [one.name, buffers(one.name, one.binding)])),
    grid,
    firstWorkgroups: sampledWorkgroups,
    subgroupSize: lanes,
    makeTracer: (tokens, memories, ofWorkgroup) =>
      (recorder = new AccessRecorder(tokens, memories, ofWorkgroup, maxTurns)),
  });
  const sampled = grid.reduce((product, count, i) => product * Math.min(count, sampledWorkgroups[i] ?? 1), 1);
  const workgroups = grid.reduce((product, count) => product * count, 1);
  const perWorkgroup = (count: number): number => count / sampled;
  const sites = recorder?.sites() ?? [];
  const barriers = recorder?.barrierSites() ?? [];
  const fetched = (recorder?.fetched() ?? []).map((one) => ({
    name: one.name,
    needed_bytes: perWorkgroup(one.bytes),
    bytes: perWorkgroup(sectorBytes * one.sectors),
  }));
  const reflection = reflect(source);
  const entry = reflection.entryPoints.find((one) => one.name === entryPoint);
  const size = (entry ? workgroupSize(reflection, entry, overrides) : []).reduce<number>(
    (product, count) => product * (count ?? 1),
    1,
  );
  const workgroupBytes = reflection.variables
    .filter(({ space }) => space === 'workgroup')
    .reduce((sum, variable) => sum + (variableSizeBytes(reflection, variable, overrides) ?? 0), 0);
  const storage = sites.filter(({ space }) => space === 'storage');
  const sum = (list: readonly AccessSite[], member: 'sectors' | 'neededSectors' | 'requests') =>
    list.reduce((total, one) => total + one[member], 0);
  const traffic = (list: readonly AccessSite[]) => ({
    needed_sectors: perWorkgroup(sum(list, 'neededSectors')),
    touched_sectors: perWorkgroup(sum(list, 'sectors')),
  });
  const requests = sum(sites, 'requests');
  return {
    name,
    workgroups,
    workgroup_size: size,
    workgroup_bytes: workgroupBytes,
    ...occupancyOf({ threads: size, bytes: workgroupBytes }),
    barriers: perWorkgroup(barriers.reduce((total, { count }) => total + count, 0)),
    bank_conflict: Math.max(1, ...sites.map(({ bankConflict }) => bankConflict)),
    active_lanes:
      requests === 0 ? 1 : sites.reduce((total, one) => total + one.activeLanes * one.requests, 0) / requests,
    reads: traffic(storage.filter(({ writes }) => !writes)),
    writes: traffic(storage.filter(({ writes }) => writes)),
    fetched,
    fetched_bytes: workgroups * fetched.reduce((total, { bytes }) => total + bytes, 0),
    sites: [
      ...sites.map((one) => ({
        line: one.line,
        column: one.column,
        kind: one.writes ? ('write' as const) : ('read' as const),
        name: one.name,
        space: one.space,
        bytes: one.bytes,
        requests: perWorkgroup(one.requests),
        active_lanes: one.activeLanes,
        ...(one.space === 'storage'
          ? {
              needed_sectors: perWorkgroup(one.neededSectors),
              touched_sectors: perWorkgroup(one.sectors),
            }
          : { bank_conflict: one.bankConflict }),
      })),
      ...barriers.map(({ line, column, count }) => ({
        line,
        column,
        kind: 'barrier' as const,
        requests: perWorkgroup(count),
      })),
    ].sort((a, b) => a.line - b.line || a.column - b.column),
  };
}

/** Buffers of a kernel that implements the contract, by binding number. */
function contractBuffers(op: LabOp, parityCase: ParityCase): ProfiledDispatch['buffers'] {
  const { contract } = op;
  const inputs = inputWordsByName(contract, parityCase);
  const outWords = outWordsByName(op, parityCase);
  const byNumber = contract.bindings.map((binding): ArrayBufferView => {
    if (binding.role === 'uniform') {
      const values = binding.name === 'step' ? { tokens: parityCase.dims['tokens'] ?? 1 } : parityCase.params;
      return new Uint8Array(packUniform(binding, values));
    }
    return inputs[binding.name]?.slice() ?? new Uint32Array(outWords[binding.name] ?? 4);
  });
  return (_, binding) => byNumber[binding] ?? new Uint32Array(4);
}

/** Sizes of the outputs in words. A shape that needs more than dims and params is taken from the oracle. */
function outWordsByName({ contract, oracle }: LabOp, parityCase: ParityCase): Record<string, number> {
  const values = { ...parityCase.params, ...parityCase.dims };
  const sizeOf = ({ shape }: ContractBinding): number =>
    shape.map((text) => compileExpression(text).evaluate(values)).reduce((product, one) => product * one, 1);
  let expected: ReturnType<LabOp['oracle']> | undefined;
  return Object.fromEntries(
    contract.bindings.flatMap((binding) => {
      if (binding.role !== 'out') return [];
      let elements = sizeOf(binding);
      if (!Number.isSafeInteger(elements)) {
        expected ??= oracle(parityCase);
        elements = expected[binding.name]?.values.length ?? 0;
      }
      return [[binding.name, Math.max(4, wordCountOf(binding.dtype ?? 'f32', elements))]];
    }),
  );
}

/** Bytes of each binding of the contract. */
function bytesByName(op: LabOp, parityCase: ParityCase): (name: string) => number {
  const outWords = outWordsByName(op, parityCase);
  return (name) => parityCase.tensors[name]?.byteLength ?? 4 * (outWords[name] ?? 0);
}

function builtinBuffers(
  { kernel, params, dims, bindings }: BuiltinStep,
  parityCase: ParityCase,
  outWords: Readonly<Record<string, number>>,
): ProfiledDispatch['buffers'] {
  const bufferOf = (binding: BuiltinBinding): ArrayBufferView => {
    if ('data' in binding) return binding.data.slice();
    if ('scratch' in binding) return new Uint32Array(Math.max(4, Math.ceil(binding.bytes / 4)));
    const data = parityCase.tensors[binding.tensor];
    if (data && data.length >= 4) return data.slice();
    return new Uint32Array(Math.max(4, outWords[binding.tensor] ?? 0));
  };
  return (name) => {
    if (name === 'params') return new Uint8Array(packParams(kernel, params as never));
    if (name === 'step') return Uint32Array.of(dims.tokens, dims.samples, dims.splitTiles, dims.decodeRows);
    const binding = bindings[name];
    return binding ? bufferOf(binding) : new Uint32Array(4);
  };
}
