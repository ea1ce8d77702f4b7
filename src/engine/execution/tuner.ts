/** Measures which kernels are fastest for a model's products, on the actual adapter and weights. */
import { packParams } from '../../../kernels/define.ts';
import {
  type MatmulFamily,
  matmulFamilies,
  type MatmulOption,
  plainProductParams,
} from '../../../kernels/matmul.ts';
import type { Gpu } from '../gpu/device.ts';
import { PassTimer } from '../gpu/pass-timer.ts';
import type { PipelineCache } from '../gpu/pipelines.ts';
import type { Graph } from '../graph/graph.ts';
import type { MatmulUnit } from '../ops/matmul.ts';
import type { Memory } from '../memory/memory.ts';
import { comparedRowCounts, productKey, type Tuning } from './tuning.ts';
import { stackKey } from '../graph/stack-key.ts';
import { withoutSubgroups } from '../verification/excluded-kernels.ts';
import type { WeightPart, WeightStack } from '../loading/weights.ts';

interface TunerContext {
  readonly gpu: Gpu;
  readonly pipelines: PipelineCache;
  readonly memory: Memory;
}

interface TuningTask {
  readonly unit: MatmulUnit;
  readonly part: WeightPart;
  readonly flops: number;
}

/** Token count that represents "any number". */
const batchTokens = 64;
const rounds = 5;
/** Minimum duration of a round in ms, reached by repeating the dispatch. */
const minRoundMs = 1;
const maxRepeats = 64;
/** Recorded for a kernel that does not compile on this adapter or gives wrong results. */
const invalidMs = 1e9;
/** Below the resolution of any clock. */
const minMs = 1e-6;
/** Largest mean squared error between two kernels, relative to the signal power; 8-bit rounding causes 3e-5. */
const maxRelativeError = 1e-3;

interface KernelCandidate {
  readonly family: MatmulFamily;
  readonly option: MatmulOption;
}

/**
 * A measurement to make: the candidate kernels for one product and row-count class. The default candidate is first.
 */
interface TuningMeasurement {
  readonly task: TuningTask;
  readonly upTo: number;
  readonly candidates: readonly KernelCandidate[];
}

/**
 * Kernel families differ in summation order, so a model uses a single one. The largest product of each format decides
 * which, at one token and at many.
 */
function familyMeasurements(
  families: readonly MatmulFamily[],
  tasks: readonly TuningTask[],
): TuningMeasurement[] {
  const heaviest = new Map(tasks.filter(({ unit }) => !unit.sampled).map((task) => [task.part.format, task]));
  return [...heaviest.values()].flatMap((task) =>
    comparedRowCounts.map((upTo) => ({
      task,
      upTo,
      candidates: families.flatMap((family) => {
        const options = family.classes(task.part.format).find((one) => one.upTo === upTo)?.options ?? [];
        return options.slice(0, 1).map((option) => ({ family, option }));
      }),
    })),
  );
}

/** Largest products first. */
function optionMeasurements(family: MatmulFamily, tasks: readonly TuningTask[]): TuningMeasurement[] {
  return tasks.toReversed().flatMap((task) =>
    family
      .classes(task.part.format)
      .filter(({ options }) => options.length > 1 && options[0]?.kernel.rows !== 'decode')
      .map(({ upTo, options }) => ({
        task,
        upTo,
        candidates: options.map((option) => ({ family, option })),
      })),
  );
}

const isPending = (tuning: Tuning, { task, upTo, candidates }: TuningMeasurement): boolean =>
  candidates.some(({ family, option }) => !tuning.has(family, task.part, upTo, option));

/** The kernel family for a model with these products. */
export function familyOf(
  { gpu }: Pick<TunerContext, 'gpu'>,
  stacks: ReadonlyMap<string, WeightStack>,
  tuning: Tuning,
): MatmulFamily {
  const products = [...stacks.values()].flatMap(({ parts }) => parts);
  const families = matmulFamilies(gpu.caps, tuning.int8);
  // Kernels without subgroups replace those that gave wrong results; they are never measured.
  const fallbacks = tuning.excluded.size > 0 ? matmulFamilies(withoutSubgroups(gpu.caps)) : [];
  return tuning.family([...families, ...fallbacks], products);
}

/** True when every product of the graph is measured. */
export function isMeasured(
  context: Pick<TunerContext, 'gpu'>,
  graph: Graph,
  stacks: ReadonlyMap<string, WeightStack>,
  tuning: Tuning,
): boolean {
  const tasks = tasksOf(graph, stacks);
  const families = familyMeasurements(matmulFamilies(context.gpu.caps, tuning.int8), tasks);
  const options = optionMeasurements(familyOf(context, stacks, tuning), tasks);
  return ![...families, ...options].some((one) => isPending(tuning, one));
}

/**
 * Makes the missing measurements of a graph's products until `budgetMs` is used up. Overwrites activations, so
 * nothing else may run meanwhile.
 * @returns the number of measured kernels, and whether all measurements were made
 */
export async function tune(
  context: TunerContext,
  graph: Graph,
  stacks: ReadonlyMap<string, WeightStack>,
  tuning: Tuning,
  options: { budgetMs: number; now: () => number; onMeasured: (done: number, total: number) => void },
): Promise<{ measured: number; complete: boolean }> {
  const end = options.now() + options.budgetMs;
  const isOverBudget = () => options.now() > end;
  const tasks = tasksOf(graph, stacks);
  const timer = new PassTimer(context.gpu);
  let measured = 0;
  let complete = true;
  const makeMeasurements = async (measurements: readonly TuningMeasurement[]) => {
    const pending = measurements.filter((one) => isPending(tuning, one));
    for (const [index, measurement] of pending.entries()) {
      if (isOverBudget()) {
        complete = false;
        return;
      }
      measured += await measure(context, measurement, { tuning, timer, isOverBudget });
      options.onMeasured(index + 1, pending.length);
    }
  };
  try {
    await makeMeasurements(familyMeasurements(matmulFamilies(context.gpu.caps, tuning.int8), tasks));
    await makeMeasurements(optionMeasurements(familyOf(context, stacks, tuning), tasks));
  } finally {
    timer.destroy();
  }
  return { measured, complete };
}

/** One task for every distinct product, smallest first. */
function tasksOf(graph: Graph, stacks: ReadonlyMap<string, WeightStack>): TuningTask[] {
  const tasks = new Map<string, TuningTask>();
  for (const unit of graph.units) {
    if (unit.op !== 'matmul') continue;
    for (const part of stacks.get(stackKey(unit.weights))?.parts ?? []) {
      tasks.set(productKey(part, 1), { unit, part, flops: part.rows * part.blocks });
    }
  }
  return [...tasks.values()].sort((a, b) => a.flops - b.flops);
}

/**
 * Times the candidates in alternation, so that other load on the machine affects them alike, and keeps each one's
 * best round. Norms and biases are left out, because they take little time compared to the product.
 */
async function measure(
  context: TunerContext,
  { task, upTo, candidates }: TuningMeasurement,
  { tuning, timer, isOverBudget }: { tuning: Tuning; timer: PassTimer; isOverBudget: () => boolean },
): Promise<number> {
  const { gpu, memory } = context;
  const { device } = gpu;
  const { unit, part } = task;
  const maxTokens = unit.sampled ? memory.capacity.slots : memory.capacity.stepTokens;
  const tokens = Math.min(Number.isFinite(upTo) ? upTo : batchTokens, maxTokens);
  const y = memory.buffers[unit.to];
  const elements = tokens * memory.strides[unit.to];
  // Candidates that compute one range of rows compute the same one.
  const isDecode = candidates.some(({ option }) => option.kernel.rows === 'decode');
  device.queue.writeBuffer(memory.step, 0, new Uint32Array([tokens, tokens, 0, isDecode ? tokens : 0]));
  device.queue.writeBuffer(memory.buffers[unit.from], 0, sawtooth(tokens * part.blocks * 32));
  const nanFill = new Float32Array(elements).fill(Number.NaN);
  const record = ({ family, option }: KernelCandidate, ms: number) =>
    tuning.record(family, part, upTo, option, Math.max(ms, minMs));

  const runs: { candidate: KernelCandidate; encode: (pass: GPUComputePassEncoder) => void; best: number }[] =
    [];
  let expected: Float32Array | undefined;
  for (const candidate of candidates) {
    // A kernel that the driver rejects, or that gives wrong results, must neither abort start-up nor be selected.
    try {
      const encode = await encoderFor(context, task, tokens, candidate.option);
      device.queue.writeBuffer(y, 0, nanFill);
      await timer.time(encode); // may compile
      const actual = await readBack(device, y, elements);
      expected ??= actual;
      if (
        isNear(actual, expected, {
          tokens,
          stride: memory.strides[unit.to],
          first: part.firstRow,
          rows: part.rows,
        })
      )
        runs.push({ candidate, encode, best: Number.POSITIVE_INFINITY });
      else record(candidate, invalidMs);
    } catch {
      record(candidate, invalidMs);
    }
  }
  const [first] = runs;
  if (!first) return 0;
  const singleRunMs = await timer.time(first.encode);
  const repeats = Math.max(1, Math.min(maxRepeats, Math.ceil(minRoundMs / Math.max(singleRunMs, minMs))));
  for (let round = 0; round < rounds && !(round > 0 && isOverBudget()); round++) {
    for (const run of runs) {
      const ms = await timer.time((pass) => {
        for (let n = 0; n < repeats; n++) run.encode(pass);
      });
      run.best = Math.min(run.best, ms / repeats);
    }
  }
  for (const { candidate, best } of runs) record(candidate, best);
  return runs.length;
}

/** Compiles and binds an option; returns a function that adds one run of it to a pass. */
async function encoderFor(
  { gpu, memory, pipelines }: TunerContext,
  { unit, part }: TuningTask,
  tokens: number,
  { kernel, variant }: MatmulOption,
): Promise<(pass: GPUComputePassEncoder) => void> {
  const { device } = gpu;
  const params = plainProductParams({
    rows: part.rows,
    blocks: part.blocks,
    stride: memory.strides[unit.to],
    offset: part.firstRow,
  });
  const { pipeline, layout } = await pipelines.get(kernel, variant);
  const buffers: Readonly<Record<string, GPUBuffer>> = {
    quants: part.quants,
    scales: part.scales,
    vectors: memory.dummyRead,
    x: memory.buffers[unit.from],
    y: memory.buffers[unit.to],
    params: memory.pool.uniform('tuner.params', packParams(kernel, params)),
    squares: memory.dummyWrite,
    scaled: memory.scratch,
  };
  const entries = kernel.bindings(variant).flatMap((binding, index) => {
    if (!binding) return [];
    const [name] = binding;
    const resource =
      name === 'step' ? { buffer: memory.step, offset: 0, size: 16 } : { buffer: buffers[name] as GPUBuffer };
    return [{ binding: index, resource }];
  });
  const bindGroup = device.createBindGroup({ label: 'tuner', layout, entries });
  const dims = {
    tokens,
    decodeRows: kernel.rows === 'decode' ? tokens : 0,
    samples: tokens,
    singleTiles: 0,
    splitTiles: 0,
    wideTiles: 0,
    hasConsecutiveTiles: false,
    sequenceRuns: 0,
    splits: 1,
    needsLogitAdjustment: false,
    needsLogprobs: false,
  };
  const grid = kernel.grid(variant, params, dims);
  return (pass) => {
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, bindGroup);
    pass.dispatchWorkgroups(...grid);
  };
}

/** Values of both signs that differ between tokens and columns. */
function sawtooth(count: number): Float32Array<ArrayBuffer> {
  return Float32Array.from({ length: count }, (_, i) => ((i * 37) % 101) / 50 - 1);
}

/** Compares the output rows of a product; NaN never compares as near. */
function isNear(
  actual: Float32Array,
  expected: Float32Array,
  area: { tokens: number; stride: number; first: number; rows: number },
): boolean {
  let error = 0;
  let power = 0;
  for (let t = 0; t < area.tokens; t++) {
    const start = t * area.stride + area.first;
    for (let i = start; i < start + area.rows; i++) {
      error += ((actual[i] as number) - (expected[i] as number)) ** 2;
      power += (expected[i] as number) ** 2;
    }
  }
  return error <= maxRelativeError * power;
}

async function readBack(device: GPUDevice, buffer: GPUBuffer, elements: number): Promise<Float32Array> {
  const size = elements * 4;
  const usage = GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST;
  const readback = device.createBuffer({ label: 'tuner.readback', size, usage });
  const encoder = device.createCommandEncoder();
  encoder.copyBufferToBuffer(buffer, 0, readback, 0, size);
  device.queue.submit([encoder.finish()]);
  await readback.mapAsync(GPUMapMode.READ);
  const values = new Float32Array(readback.getMappedRange().slice(0));
  readback.destroy();
  return values;
}
