/** Measures, on the adapter itself and on the model's own weights, which kernels a product should run as. */
import { packParams } from '../../kernels/define.ts';
import { type MatmulFamily, matmulFamilies, type MatmulOption } from '../../kernels/matmul.ts';
import type { Gpu } from './gpu/device.ts';
import type { PipelineCache } from './gpu/pipelines.ts';
import type { Graph, MatmulUnit } from './graph.ts';
import type { Memory } from './memory.ts';
import { productKey, type Tuning } from './tuning.ts';
import { stackKey, type WeightPart, type WeightStack } from './weights.ts';

interface Bench {
  readonly gpu: Gpu;
  readonly pipelines: PipelineCache;
  readonly memory: Memory;
}

interface Task {
  readonly unit: MatmulUnit;
  readonly part: WeightPart;
  readonly flops: number;
}

/** Tokens that stand for "any number". */
const manyTokens = 64;
const rounds = 5;
/** A round is long enough to be measured: at least so many ms, by repeating the dispatch. */
const roundMs = 1;
const mostRepeats = 64;
/** Recorded for a kernel whose result was wrong. */
const wrongMs = 1e9;
/** Mean squared error of one kernel against another, as a part of the power: rounding to 8 bits makes 3e-5. */
const nearEnough = 1e-3;

/** A measurement to make: options of one product and class, by turns. */
interface Question {
  readonly family: MatmulFamily;
  readonly task: Task;
  readonly upTo: number;
  readonly options: readonly MatmulOption[];
}

/**
 * Families differ in the order of their sums, so a model runs on one; its heaviest products of each format decide
 * which.
 */
function familyQuestions(gpu: Gpu, tasks: readonly Task[], tuning: Tuning): Question[] {
  const heaviest = new Map(tasks.filter(({ unit }) => !unit.sampled).map((task) => [task.part.format, task]));
  return [...heaviest.values()].flatMap((task) =>
    matmulFamilies(gpu.caps, tuning.int8).flatMap((family) =>
      family
        .classes(task.part.format)
        .slice(0, 1)
        .map((one) => ({ family, task, ...one })),
    ),
  );
}

/** Heavy products first. */
function optionQuestions(family: MatmulFamily, tasks: readonly Task[]): Question[] {
  return tasks.toReversed().flatMap((task) =>
    family
      .classes(task.part.format)
      .filter(({ options }) => options.length > 1)
      .map((one) => ({ family, task, ...one })),
  );
}

const isOpen = (tuning: Tuning, { family, task, upTo, options }: Question): boolean =>
  options.some((option) => !tuning.has(family, task.part, upTo, option));

/** True when nothing about the products of a graph is left to measure. */
export function isMeasured(
  { gpu }: Pick<Bench, 'gpu'>,
  graph: Graph,
  stacks: ReadonlyMap<string, WeightStack>,
  tuning: Tuning,
): boolean {
  const tasks = tasksOf(graph, stacks);
  const families = familyQuestions(gpu, tasks, tuning);
  const family = tuning.family(matmulFamilies(gpu.caps, tuning.int8));
  return ![...families, ...optionQuestions(family, tasks)].some((one) => isOpen(tuning, one));
}

/**
 * Fills in what `tuning` does not know yet about the products of a graph, as long as `budgetMs` lasts. Writes
 * rubbish into the activations, so nothing may run beside it.
 * @returns how many kernels were measured
 */
export async function tune(
  bench: Bench,
  graph: Graph,
  stacks: ReadonlyMap<string, WeightStack>,
  tuning: Tuning,
  options: { budgetMs: number; now: () => number; onMeasured: (done: number, total: number) => void },
): Promise<number> {
  const end = options.now() + options.budgetMs;
  const tasks = tasksOf(graph, stacks);
  let made = 0;
  const answer = async (questions: readonly Question[]) => {
    const open = questions.filter((one) => isOpen(tuning, one));
    for (const [index, question] of open.entries()) {
      if (options.now() > end) return;
      made += await measure(bench, question, tuning);
      options.onMeasured(index + 1, open.length);
    }
  };
  await answer(familyQuestions(bench.gpu, tasks, tuning));
  await answer(optionQuestions(tuning.family(matmulFamilies(bench.gpu.caps, tuning.int8)), tasks));
  return made;
}

/** A task for every different product, the lightest first. */
function tasksOf(graph: Graph, stacks: ReadonlyMap<string, WeightStack>): Task[] {
  const tasks = new Map<string, Task>();
  for (const unit of graph.units) {
    if (unit.op !== 'matmul') continue;
    for (const part of stacks.get(stackKey(unit.weights))?.parts ?? []) {
      tasks.set(productKey(part, 1), { unit, part, flops: part.rows * part.blocks });
    }
  }
  return [...tasks.values()].sort((a, b) => a.flops - b.flops);
}

/** Times the options by turns, so that what else the machine does hits them alike; keeps the best round of each. */
async function measure(
  bench: Bench,
  { family, task, upTo, options }: Question,
  tuning: Tuning,
): Promise<number> {
  const { gpu, memory, pipelines } = bench;
  const { unit, part } = task;
  const room = unit.sampled ? memory.capacity.slots : memory.capacity.stepTokens;
  const tokens = Math.min(Number.isFinite(upTo) ? upTo : manyTokens, room);
  const params = {
    rows: part.rows,
    blocks: part.blocks,
    out_stride: memory.strides[unit.to],
    out_offset: part.firstRow,
    flags: 0,
    bias_offset: 0,
    gain_offset: 0,
    half: 0,
    parts: 0,
    width: 1,
    eps: 0,
    many: 1024,
  };
  const { device } = gpu;
  const first = options[0] as MatmulOption;
  const uniform = device.createBuffer({
    label: 'tuner.params',
    size: 48,
    usage: GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST,
  });
  device.queue.writeBuffer(uniform, 0, packParams(first.kernel, params));
  device.queue.writeBuffer(memory.step, 0, new Uint32Array([tokens, tokens, 0, 1]));
  const dims = { tokens, samples: tokens, singleTiles: 0, wideTiles: 0, splits: 1, adjust: false };
  const runs = await Promise.all(
    options.map(async ({ kernel, variant }) => {
      const { pipeline, layout } = await pipelines.get(kernel, variant);
      const buffers: Readonly<Record<string, GPUBuffer>> = {
        quants: part.quants,
        scales: part.scales,
        vectors: memory.nothing,
        x: memory.buffers[unit.from],
        y: memory.buffers[unit.to],
        params: uniform,
        squares: memory.nowhere,
        scaled: memory.aside,
      };
      const entries = kernel.bindings(variant).flatMap((binding, index) => {
        if (!binding) return [];
        const [name] = binding;
        const resource =
          name === 'step'
            ? { buffer: memory.step, offset: 0, size: 16 }
            : { buffer: buffers[name] as GPUBuffer };
        return [{ binding: index, resource }];
      });
      const bindGroup = device.createBindGroup({ label: 'tuner', layout, entries });
      const grid = kernel.grid(variant, params, dims);
      const time = async (repeats: number): Promise<number> => {
        const encoder = device.createCommandEncoder();
        const pass = encoder.beginComputePass();
        pass.setPipeline(pipeline);
        pass.setBindGroup(0, bindGroup);
        for (let n = 0; n < repeats; n++) pass.dispatchWorkgroups(...grid);
        pass.end();
        const start = performance.now();
        device.queue.submit([encoder.finish()]);
        await device.queue.onSubmittedWorkDone();
        return (performance.now() - start) / repeats;
      };
      return { time, best: Number.POSITIVE_INFINITY };
    }),
  );
  device.queue.writeBuffer(memory.buffers[unit.from], 0, sawtooth(tokens * part.blocks * 32));
  const results: Float32Array[] = [];
  try {
    // The first run may compile. A kernel that a driver gets wrong must not be chosen for its speed.
    for (const run of runs) {
      await run.time(1);
      results.push(await readBack(device, memory.buffers[unit.to], tokens * memory.strides[unit.to]));
    }
    const once = await (runs[0] as (typeof runs)[number]).time(1);
    const repeats = Math.max(1, Math.min(mostRepeats, Math.ceil(roundMs / once)));
    for (let round = 0; round < rounds; round++) {
      for (const run of runs) run.best = Math.min(run.best, await run.time(repeats));
    }
  } finally {
    uniform.destroy();
  }
  for (const [index, run] of runs.entries()) {
    const right = isNear(results[index] as Float32Array, results[0] as Float32Array);
    tuning.record(family, part, upTo, options[index] as MatmulOption, right ? run.best : wrongMs);
  }
  return runs.length;
}

/** Values of either sign that differ from token to token and column to column. */
function sawtooth(count: number): Float32Array<ArrayBuffer> {
  return Float32Array.from({ length: count }, (_, i) => ((i * 37) % 101) / 50 - 1);
}

function isNear(got: Float32Array, expected: Float32Array): boolean {
  let error = 0;
  let power = 0;
  for (const [i, value] of expected.entries()) {
    error += ((got[i] as number) - value) ** 2;
    power += value ** 2;
  }
  return error <= nearEnough * power;
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
