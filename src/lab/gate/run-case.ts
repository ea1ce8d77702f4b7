/** Runs a candidate on one case. Several runs on different buffers detect kernels that depend on stale data. */
import type { Contract, ContractBinding } from '../../../kernels/contracts.ts';
import { type Dispatchable, submitCompilation } from '../../engine/gpu/compile-ahead.ts';
import type { ParityCase } from '../types.ts';
import type { AccessSite, ConditionSite, ValueSite } from '../wgsl/instrument.ts';
import type { Grid } from './dispatch.ts';
import { perturbWords, type Poison, poisonWord } from './elements.ts';
import { type RunResult, GuardedBuffers } from './guarded-buffers.ts';
import type { PhaseReporter } from './phases.ts';

/** A pipeline with the bindings of a contract in group 0. */
export interface ContractPipeline {
  readonly pipeline: GPUComputePipeline;
  readonly layout: GPUBindGroupLayout;
}

/** The build that counts out-of-bounds accesses and records outcomes of conditions. */
export interface CheckedBuild extends ContractPipeline {
  /** Layout of group 1: one storage buffer with the counts. */
  readonly countsLayout: GPUBindGroupLayout;
  /** Checked accesses in the source. Each has two words in the counts buffer. */
  readonly sites: readonly AccessSite[];
  /** Conditions in the source. Each has two words after those of the accesses. */
  readonly conditions: readonly ConditionSite[];
  /** Numbers in the source whose range is recorded. Each has two words after those of the conditions. */
  readonly values: readonly ValueSite[];
}

export interface Candidate extends ContractPipeline {
  readonly contract: Contract;
  readonly checked?: CheckedBuild | undefined;
}

export interface CaseRun {
  /** Run on buffers whose outputs contained NaN. */
  readonly first: RunResult;
  /**
   * Run on other buffers. Their outputs contained large numbers, then the results of a run on perturbed inputs.
   */
  readonly second: RunResult;
  /** Contents of the bindings before the first run. */
  readonly initialContents: Readonly<Record<string, Uint32Array<ArrayBuffer>>>;
  /** Contents of the writable bindings after the run on perturbed inputs. */
  readonly perturbedOutputs: RunResult['written'];
  /**
   * For each access: the number of those out of bounds, and one such index. Then for each condition: whether it was false, and whether
   * it was true. Then for each number: its largest value, and the complement of its smallest, as keys. Empty without a checked build.
   */
  readonly counts: Uint32Array;
  /** Error from Dawn, for example for a binding smaller than the type that the kernel declares. */
  readonly failure?: string;
}

export interface CaseOptions {
  readonly grid: Grid;
  /** Sizes of the bindings of role `out`, in 32-bit words: cases do not contain them. */
  readonly outWords: Readonly<Record<string, number>>;
  /** Seed of the perturbed inputs. */
  readonly seed: number;
  /** Selects which half of the inputs is perturbed; see `perturbWords`. */
  readonly complement: boolean;
  readonly phases: PhaseReporter;
}

/** A case whose runs were submitted. */
export interface StartedCase {
  readonly done: Promise<CaseRun>;
}

/** Pipelines that the driver has already compiled. */
const compiledPipelines = new WeakSet<GPUComputePipeline>();

/**
 * Submits three runs and a bounds-checked one. Resolves when the kernel is compiled and the runs are submitted; `done`
 * resolves with the results. Every storage binding is part of a larger buffer, the rest of which must not change.
 */
export async function startCase(
  device: GPUDevice,
  candidate: Candidate,
  parityCase: ParityCase,
  { grid, outWords, seed, complement, phases }: CaseOptions,
): Promise<StartedCase> {
  const { contract } = candidate;
  const storage = contract.bindings.filter(({ role }) => role !== 'uniform');
  const inputs = inputWordsByName(contract, parityCase);
  const perturbedInputs = Object.fromEntries(
    Object.entries(inputs).map(([name, words]) => {
      const dtype = storage.find((binding) => binding.name === name)?.dtype ?? 'f32';
      return [name, perturbWords(dtype, words, { seed, complement })];
    }),
  );
  const poisonedOutputs = (poison: Poison) =>
    Object.fromEntries(
      storage
        .filter(({ role }) => role === 'out')
        .map((binding) => [
          binding.name,
          new Uint32Array(outWords[binding.name] ?? 0).fill(poisonWord(binding.dtype ?? 'f32', poison)),
        ]),
    );
  const firstContents = { ...inputs, ...poisonedOutputs('nan') };

  device.pushErrorScope('validation');
  device.pushErrorScope('out-of-memory');
  const first = new GuardedBuffers(device, contract, parityCase, {
    contents: firstContents,
    leadingCanaries: 1,
  });
  const second = new GuardedBuffers(device, contract, parityCase, {
    contents: { ...perturbedInputs, ...poisonedOutputs('large') },
    leadingCanaries: 2,
  });
  const { sites = [], conditions = [], values = [] } = candidate.checked ?? {};
  const countBytes = 8 * (sites.length + conditions.length + values.length);
  const readback = device.createBuffer({
    label: 'lab.readback',
    size: first.bytes + 2 * second.bytes + countBytes,
    usage: GPUBufferUsage.COPY_DST | GPUBufferUsage.MAP_READ,
  });
  const counts = device.createBuffer({
    label: 'lab.counts',
    size: Math.max(16, countBytes),
    usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC,
  });
  const dispatchable = (build: ContractPipeline, buffers: GuardedBuffers): Dispatchable => {
    const bindGroups = [buffers.bindGroup(build.layout)];
    if (candidate.checked === build) {
      const { countsLayout: layout } = candidate.checked;
      const entries = [{ binding: 0, resource: { buffer: counts } }];
      bindGroups.push(device.createBindGroup({ layout, entries }));
    }
    return { pipeline: build.pipeline, bindGroups };
  };
  const dispatch = (encoder: GPUCommandEncoder, build: ContractPipeline, buffers: GuardedBuffers) => {
    const { pipeline, bindGroups } = dispatchable(build, buffers);
    const pass = encoder.beginComputePass();
    pass.setPipeline(pipeline);
    for (const [index, group] of bindGroups.entries()) pass.setBindGroup(index, group);
    pass.dispatchWorkgroups(...grid);
    pass.end();
  };
  const firstError = async (scopes: readonly Promise<GPUError | null>[]): Promise<GPUError | undefined> =>
    (await Promise.all(scopes)).find((error) => error !== null);
  const destroy = () => {
    for (const owned of [first, second, readback, counts]) owned.destroy();
  };
  const failedRun = async ({ message }: GPUError): Promise<CaseRun> => {
    destroy();
    return { ...emptyRun, failure: message };
  };

  const builds = [candidate, ...(candidate.checked ? [candidate.checked] : [])];
  const uncompiled = builds.filter(({ pipeline }) => !compiledPipelines.has(pipeline));
  if (uncompiled.length > 0) {
    submitCompilation(
      device,
      uncompiled.map((build) => dispatchable(build, first)),
    );
  }
  const setupError = await firstError([device.popErrorScope(), device.popErrorScope()]);
  if (setupError) return { done: failedRun(setupError) };
  if (uncompiled.length > 0) {
    await phases.during('compile', () => device.queue.onSubmittedWorkDone());
    for (const { pipeline } of uncompiled) compiledPipelines.add(pipeline);
  }

  device.pushErrorScope('validation');
  device.pushErrorScope('out-of-memory');
  let readbackOffset = 0;
  let encoder = device.createCommandEncoder();
  dispatch(encoder, candidate, first);
  readbackOffset += first.copyTo(encoder, readback, readbackOffset);
  dispatch(encoder, candidate, second);
  readbackOffset += second.copyTo(encoder, readback, readbackOffset);
  device.queue.submit([encoder.finish()]);
  second.rewrite(inputs);
  encoder = device.createCommandEncoder();
  dispatch(encoder, candidate, second);
  readbackOffset += second.copyTo(encoder, readback, readbackOffset);
  if (candidate.checked) {
    // Only the counts of this run are used, so it can reuse the first buffers.
    dispatch(encoder, candidate.checked, first);
    encoder.copyBufferToBuffer(counts, 0, readback, readbackOffset, countBytes);
  }
  device.queue.submit([encoder.finish()]);
  const error = await firstError([device.popErrorScope(), device.popErrorScope()]);
  if (error) return { done: failedRun(error) };
  const done = readback
    .mapAsync(GPUMapMode.READ)
    .then((): CaseRun => {
      const copied = readback.getMappedRange().slice(0);
      return {
        first: first.inspect(copied, 0),
        perturbedOutputs: second.inspect(copied, first.bytes).written,
        second: second.inspect(copied, first.bytes + second.bytes),
        initialContents: firstContents,
        counts: new Uint32Array(copied, readbackOffset, countBytes / 4),
      };
    })
    .finally(destroy);
  return { done };
}

const emptyResult: RunResult = { written: {}, canaries: [], inputs: [] };
const emptyRun: CaseRun = {
  first: emptyResult,
  second: emptyResult,
  perturbedOutputs: {},
  initialContents: {},
  counts: new Uint32Array(0),
};

/** Initial contents of the `in` and `inout` bindings, by name. */
export const inputWordsByName = (
  { bindings }: Contract,
  parityCase: ParityCase,
): Readonly<Record<string, Uint32Array<ArrayBuffer>>> =>
  Object.fromEntries(
    bindings
      .filter(({ role }) => role === 'in' || role === 'inout')
      .map((binding) => [binding.name, inputWords(binding, parityCase)]),
  );

/** Padded to at least 16 bytes, as in the engine: an input that the op does not use can be empty. */
function inputWords({ name }: ContractBinding, parityCase: ParityCase): Uint32Array<ArrayBuffer> {
  const data = parityCase.tensors[name];
  if (!data) throw new Error(`case ${parityCase.name} has no ${name}`);
  const words = new Uint32Array(data.buffer, data.byteOffset, data.length);
  if (words.length >= 4) return words;
  const padded = new Uint32Array(4);
  padded.set(words);
  return padded;
}
