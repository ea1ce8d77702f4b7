/** Measures which kernels are fastest for a model, on the actual adapter and weights. */
import { packParams } from '../../../kernels/define.ts';
import {
  type MatmulFamily,
  matmulFamilies,
  type MatmulOption,
  plainProductParams,
} from '../../../kernels/matmul.ts';
import type { Gpu } from '../gpu/device.ts';
import type { PipelineCache } from '../gpu/pipelines.ts';
import type { Graph } from '../graph/graph.ts';
import type { MatmulUnit } from '../ops/matmul.ts';
import type { Memory } from '../memory/memory.ts';
import { type ChoicesPlanner, choiceMeasurements } from './choice-measurements.ts';
import {
  areNear,
  type Candidate,
  deviceBench,
  isPending,
  type KernelBench,
  measureCandidates,
  type Measurement,
  sawtooth,
} from './measure-candidates.ts';
import { comparedRowCounts, optionKey, productKey, type Tuning } from './tuning.ts';
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

interface KernelCandidate {
  readonly family: MatmulFamily;
  readonly option: MatmulOption;
}

/** The candidate kernels for one product and row-count class. The default candidate is first. */
interface ProductChoice {
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
): ProductChoice[] {
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
function optionMeasurements(family: MatmulFamily, tasks: readonly TuningTask[]): ProductChoice[] {
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

/** Plans the choices that are left to measurements besides those of products. */
type PlanChoices = (tuning: Tuning) => Promise<ChoicesPlanner>;

/** True when everything that a plan chooses is measured. */
export async function isMeasured(
  context: TunerContext,
  graph: Graph,
  stacks: ReadonlyMap<string, WeightStack>,
  tuning: Tuning,
  planChoices?: PlanChoices,
): Promise<boolean> {
  const tasks = tasksOf(graph, stacks);
  const families = familyMeasurements(matmulFamilies(context.gpu.caps, tuning.int8), tasks);
  const options = optionMeasurements(familyOf(context, stacks, tuning), tasks);
  const products = [...families, ...options].map((choice) => productMeasurement(context, choice));
  if (products.some((one) => isPending(tuning, one))) return false;
  const choices = planChoices ? await choiceMeasurements(await planChoices(tuning)) : [];
  return !choices.some((one) => isPending(tuning, one));
}

interface TuneOptions {
  readonly budgetMs: number;
  readonly now: () => number;
  readonly onMeasured: (done: number, total: number) => void;
  readonly planChoices?: PlanChoices;
  /** Default: one that runs on the device. */
  readonly bench?: KernelBench;
}

/**
 * Makes the missing measurements of a graph until `budgetMs` is used up. Overwrites activations, caches and page tables, so
 * nothing else may run meanwhile.
 * @returns the number of measured kernels, and whether all measurements were made
 */
export async function tune(
  context: TunerContext,
  graph: Graph,
  stacks: ReadonlyMap<string, WeightStack>,
  tuning: Tuning,
  { budgetMs, now, onMeasured, planChoices, bench = deviceBench(context.gpu) }: TuneOptions,
): Promise<{ measured: number; complete: boolean }> {
  const end = now() + budgetMs;
  const isOverBudget = () => now() > end;
  const tasks = tasksOf(graph, stacks);
  let measured = 0;
  let complete = true;
  const makeMeasurements = async (measurements: readonly Measurement[]) => {
    const pending = measurements.filter((one) => isPending(tuning, one));
    for (const [index, measurement] of pending.entries()) {
      if (isOverBudget()) {
        complete = false;
        return;
      }
      measured += await measureCandidates(measurement, { tuning, bench, isOverBudget });
      onMeasured(index + 1, pending.length);
    }
  };
  const measureProducts = (choices: readonly ProductChoice[]) =>
    makeMeasurements(choices.map((choice) => productMeasurement(context, choice)));
  try {
    await measureProducts(familyMeasurements(matmulFamilies(context.gpu.caps, tuning.int8), tasks));
    await measureProducts(optionMeasurements(familyOf(context, stacks, tuning), tasks));
    // How attention is tiled is chosen first: the kernels of its parts are measured with it.
    for (const kind of planChoices ? (['tiling', 'variant'] as const) : []) {
      const planner = await (planChoices as PlanChoices)(tuning);
      await makeMeasurements(await choiceMeasurements(planner, kind));
    }
  } finally {
    bench.destroy();
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

/** Norms and biases are left out, because they take little time compared to the product. */
function productMeasurement(context: TunerContext, { task, upTo, candidates }: ProductChoice): Measurement {
  const { gpu, memory } = context;
  const { queue } = gpu.device;
  const { unit, part } = task;
  const maxTokens = unit.sampled ? memory.capacity.slots : memory.capacity.stepTokens;
  const tokens = Math.min(Number.isFinite(upTo) ? upTo : batchTokens, maxTokens);
  const buffer = memory.buffers[unit.to];
  const stride = memory.strides[unit.to];
  const words = tokens * stride;
  // Candidates that compute one range of rows compute the same one.
  const isDecode = candidates.some(({ option }) => option.kernel.rows === 'decode');
  const [first, end] = [part.firstRow, part.firstRow + part.rows];
  return {
    key: productKey(part, upTo),
    candidates: candidates.map(
      ({ family, option }): Candidate => ({
        name: `${family.name} ${optionKey(option)}`,
        prepare: () => encoderFor(context, task, tokens, option),
      }),
    ),
    fill(isFirst) {
      if (isFirst) {
        queue.writeBuffer(memory.step, 0, new Uint32Array([tokens, tokens, 0, isDecode ? tokens : 0]));
        queue.writeBuffer(memory.buffers[unit.from], 0, sawtooth(tokens * part.blocks * 32));
      }
      queue.writeBuffer(buffer, 0, new Float32Array(words).fill(Number.NaN));
    },
    output: { buffer, words },
    isNear: (actual, expected) =>
      areNear(actual, expected, (index) => index % stride >= first && index % stride < end),
  };
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
