import type { ModelFile } from './formats/model-file.ts';
import type { Gpu } from './gpu/device.ts';
import { BufferPool } from './gpu/buffers.ts';
import { PipelineCache } from './gpu/pipelines.ts';
import { traceDispatches, type DispatchTime } from './gpu/trace.ts';
import type { Graph } from './graph.ts';
import { allocateMemory, type Capacity, type Memory } from './memory.ts';
import { encodePlan, makePlan, type Plan, type Weights } from './plan.ts';
import type { WgslSources } from './platform.ts';
import { StepInput } from './step.ts';
import { EngineError, greedy, type LoadProgress } from './types.ts';
import { formatBytes } from './format-bytes.ts';
import { stackKey, stacksOf, WeightLoader } from './weights.ts';

/** Steps that may be on their way at once: one runs while the next is encoded. */
export const pipelineDepth = 2;

/** One device's life: weights, memory and plan, and the submission of steps. */
export class Runner {
  readonly gpu: Gpu;
  readonly graph: Graph;
  readonly memory: Memory;
  readonly plan: Plan;
  readonly pipelineCount: number;
  readonly weightBytes: number;
  readonly #weights: BufferPool;
  readonly #readbacks: GPUBuffer[];

  private constructor(parts: {
    gpu: Gpu;
    graph: Graph;
    memory: Memory;
    plan: Plan;
    weights: BufferPool;
    pipelineCount: number;
  }) {
    this.gpu = parts.gpu;
    this.graph = parts.graph;
    this.memory = parts.memory;
    this.plan = parts.plan;
    this.pipelineCount = parts.pipelineCount;
    this.weightBytes = parts.weights.bytes;
    this.#weights = parts.weights;
    const bytes = parts.memory.capacity.slots * 4;
    this.#readbacks = Array.from({ length: pipelineDepth }, (_, index) =>
      parts.memory.pool.readback(`results.readback${index}`, bytes),
    );
  }

  static async load(options: {
    gpu: Gpu;
    file: ModelFile;
    graph: Graph;
    capacity: Capacity;
    wgsl: WgslSources;
    onProgress: (progress: LoadProgress) => void;
  }): Promise<Runner> {
    const { gpu, file, graph, capacity, onProgress } = options;
    const weightPool = new BufferPool(gpu.device);
    let memory: Memory | undefined;
    try {
      gpu.device.pushErrorScope('out-of-memory');
      memory = allocateMemory(gpu.device, graph.shape, capacity);
      const total = memory.pool;
      const weights = await loadWeights(gpu, file, graph, weightPool, onProgress, async () => {
        const refused = await gpu.device.popErrorScope();
        if (refused) throw outOfMemory(file.name, total.bytes + weightPool.bytes, refused.message);
      });
      const pipelines = new PipelineCache(gpu.device, options.wgsl);
      onProgress({ stage: 'pipelines', done: 0, total: 1 });
      const plan = await makePlan({ gpu, pipelines, graph, memory, weights });
      const runner = new Runner({
        gpu,
        graph,
        memory,
        plan,
        weights: weightPool,
        pipelineCount: pipelines.size,
      });
      await runner.#warmUp(onProgress);
      return runner;
    } catch (error) {
      memory?.pool.destroy();
      weightPool.destroy();
      throw error;
    }
  }

  newStep(): StepInput {
    const { layout, tileTokens, splitTokens } = this.memory;
    return new StepInput(layout, { tileTokens, splitTokens });
  }

  /** One submit, one readback. Resolves with the token drawn for each sample, in order. */
  async submit(step: StepInput): Promise<Uint32Array> {
    const { device } = this.gpu;
    const readback = this.#readbacks.pop();
    if (!readback) throw new Error(`more than ${pipelineDepth} steps in flight`);
    device.queue.writeBuffer(this.memory.step, 0, step.bytes());
    const encoder = device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    encodePlan(pass, this.plan, step.dims);
    pass.end();
    const bytes = step.dims.samples * 4;
    if (bytes > 0) encoder.copyBufferToBuffer(this.memory.results, 0, readback, 0, bytes);
    device.queue.submit([encoder.finish()]);
    // Mapping also waits for a step that samples nothing: it bounds the work in flight.
    await readback.mapAsync(GPUMapMode.READ);
    const tokens = new Uint32Array(readback.getMappedRange().slice(0, bytes));
    readback.unmap();
    this.#readbacks.push(readback);
    return tokens;
  }

  /** The logits of every sample of one step, after bias and penalties: for tests and the lab. */
  async logits(step: StepInput): Promise<Float32Array[]> {
    await this.submit(step);
    const { device } = this.gpu;
    const { vocabulary } = this.graph.shape;
    const size = step.dims.samples * vocabulary * 4;
    const usage = GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST;
    const readback = device.createBuffer({ label: 'logits.readback', size, usage });
    const encoder = device.createCommandEncoder();
    encoder.copyBufferToBuffer(this.memory.buffers.logits, 0, readback, 0, size);
    device.queue.submit([encoder.finish()]);
    await readback.mapAsync(GPUMapMode.READ);
    const all = new Float32Array(readback.getMappedRange().slice(0));
    readback.destroy();
    return Array.from({ length: step.dims.samples }, (_, row) =>
      all.subarray(row * vocabulary, (row + 1) * vocabulary),
    );
  }

  /** GPU time of every dispatch of one step. */
  trace(step: StepInput): Promise<DispatchTime[]> {
    this.gpu.device.queue.writeBuffer(this.memory.step, 0, step.bytes());
    return traceDispatches(this.gpu, this.plan, step.dims);
  }

  /** Which pages a slot's sequence lives on, by position. */
  setPages(slot: number, pages: readonly number[]): void {
    const { pageTable, maxPages } = this.memory;
    this.gpu.device.queue.writeBuffer(pageTable, slot * maxPages * 4, new Uint32Array(pages));
  }

  /** The request's own logit bias: [vocabulary]. */
  setBias(slot: number, bias: Float32Array<ArrayBuffer>): void {
    this.gpu.device.queue.writeBuffer(this.memory.bias, slot * this.graph.shape.vocabulary * 4, bias);
  }

  /** Bit 31 of a token is set when it stands in the prompt: [vocabulary]. */
  setSeen(slot: number, seen: Uint32Array<ArrayBuffer>): void {
    this.gpu.device.queue.writeBuffer(this.memory.seen, slot * this.graph.shape.vocabulary * 4, seen);
  }

  destroy(): void {
    this.memory.pool.destroy();
    this.#weights.destroy();
    this.gpu.device.destroy();
  }

  /** Runs every variant once: a driver may compile at the first dispatch, and no request should wait for that. */
  async #warmUp(onProgress: (progress: LoadProgress) => void): Promise<void> {
    const { slots, stepTokens } = this.memory.capacity;
    const counts = [1, 4, slots].filter(
      (count, index, all) => count <= slots && all.indexOf(count) === index,
    );
    const total = counts.length + 1;
    const step = this.newStep();
    for (const [done, count] of counts.entries()) {
      onProgress({ stage: 'warm-up', done, total });
      step.clear();
      // Penalties that change nothing, so that their kernel is compiled too.
      const sampling = { ...greedy, repetitionPenalty: 1 + 1e-7 };
      for (let slot = 0; slot < count; slot++) step.sample(step.decodeToken(0, 0, slot), slot, 1, sampling);
      await this.submit(step);
    }
    onProgress({ stage: 'warm-up', done: counts.length, total });
    step.clear();
    const prompt = Array.from({ length: Math.min(this.memory.tileTokens, stepTokens) }, () => 0);
    step.sample(step.prefillTokens(prompt, 0, prompt.length, 0), 0, prompt.length, greedy);
    await this.submit(step);
    onProgress({ stage: 'warm-up', done: total, total });
  }
}

function outOfMemory(name: string, bytes: number, reason: string): EngineError {
  return new EngineError(
    'model_too_large',
    `${name} needs ${formatBytes(bytes)} of device memory, and the device does not give them (${reason}); ` +
      'use a smaller model or quantisation, or a smaller --context',
  );
}

async function loadWeights(
  gpu: Gpu,
  file: ModelFile,
  graph: Graph,
  pool: BufferPool,
  onProgress: (progress: LoadProgress) => void,
  allocated: () => Promise<void>,
): Promise<Weights> {
  const vectorKeys = new Map<string, readonly string[]>();
  for (const unit of graph.units) {
    if (unit.op === 'rms_norm' || unit.op === 'head_norm') vectorKeys.set(unit.weight, [unit.weight]);
    if (unit.op === 'matmul' && unit.biases.length > 0) vectorKeys.set(stackKey(unit.biases), unit.biases);
  }
  const stackNames = stacksOf(graph);
  const sizeOf = (names: readonly string[]) =>
    names.reduce((sum, name) => sum + (file.tensors.get(name)?.sizeBytes ?? 0), 0);
  const total = [...stackNames, ...vectorKeys.values()].reduce((sum, names) => sum + sizeOf(names), 0);
  let done = 0;
  const loader = new WeightLoader(file, pool, {
    maxBindingBytes: Math.min(gpu.device.limits.maxStorageBufferBindingSize, gpu.device.limits.maxBufferSize),
    onBytes: (bytes) => {
      done += bytes;
      onProgress({ stage: 'weights', done: Math.min(done, total), total });
    },
  });
  const stacks = new Map(stackNames.map((names) => [stackKey(names), loader.allocate(names)] as const));
  await allocated();
  for (const stack of stacks.values()) await loader.fill(stack);
  const vectors = new Map<string, GPUBuffer>();
  for (const [key, names] of vectorKeys) vectors.set(key, await loader.vector(names));
  return { stacks, vectors };
}
