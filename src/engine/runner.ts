import type { Gpu } from './gpu/device.ts';
import type { BufferPool } from './gpu/buffers.ts';
import { traceDispatches, type DispatchTime } from './gpu/trace.ts';
import type { Graph, Shape } from './graph.ts';
import type { PageCopy } from './kv-cache.ts';
import { pageBytesPerBinding, type Memory } from './memory.ts';
import { int8Tolerance, klDivergence } from './divergence.ts';
import { type LoadOptions, prepare } from './loading.ts';
import { encodePlan, makePlan, type Plan } from './plan.ts';
import { StepInput, stepSamples } from './step.ts';
import { greedy, type LoadProgress } from './types.ts';

/** Steps that may be on their way at once: one runs while the next is encoded. */
export const pipelineDepth = 2;

/** One device's life: weights, memory and plan, and the submission of steps. */
export class Runner {
  readonly gpu: Gpu;
  readonly graph: Graph;
  readonly memory: Memory;
  plan: Plan;
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
    const bytes = stepSamples(parts.memory.capacity.slots) * 4;
    this.#readbacks = Array.from({ length: pipelineDepth }, (_, index) =>
      parts.memory.pool.readback(`results.readback${index}`, bytes),
    );
  }

  static async load(options: LoadOptions): Promise<Runner> {
    const { gpu, graph, onProgress } = options;
    const loading = await prepare(options);
    try {
      const { memory, weights, pipelines, works, family, tuning } = loading;
      const parts = { gpu, pipelines, graph, memory, weights, works, family };
      // Kernels are compiled beside the disk, whose reading has the word; some drivers do it at the first dispatch.
      let reading = true;
      const filled = loading.fill().finally(() => (reading = false));
      filled.catch(() => undefined); // awaited below
      const plan = await makePlan({ ...parts, tuning });
      const runner = new Runner({
        gpu,
        graph,
        memory,
        plan,
        weights: loading.pool,
        pipelineCount: pipelines.size,
      });
      await Promise.all([filled, runner.#warmUp((progress) => reading || onProgress(progress))]);
      if (plan.int8) {
        const divergence = await runner.#divergence(await makePlan({ ...parts, tuning: tuning.exact() }));
        options.onNotice?.(
          `activations of prompts are rounded to 8 bits where that was faster: ${describe(divergence)}`,
        );
      }
      return runner;
    } catch (error) {
      loading.destroy();
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
    for (const copy of step.copies) copyPage(encoder, this.memory, this.graph.shape, copy);
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

  /** Which pages a slot's sequence lives on, by position, from its page number `first` on. */
  setPages(slot: number, pages: readonly number[], first = 0): void {
    const { pageTable, maxPages } = this.memory;
    const added = new Uint32Array(first === 0 ? pages : pages.slice(first));
    this.gpu.device.queue.writeBuffer(pageTable, (slot * maxPages + first) * 4, added);
  }

  /** The request's own logit bias: [vocabulary]. */
  setBias(slot: number, bias: Float32Array<ArrayBuffer>): void {
    this.gpu.device.queue.writeBuffer(this.memory.bias, slot * this.graph.shape.vocabulary * 4, bias);
  }

  /** By token: bit 31 when it stands in the prompt, below it how often it stands in the answer: [vocabulary]. */
  setSeen(slot: number, seen: Uint32Array<ArrayBuffer>): void {
    this.gpu.device.queue.writeBuffer(this.memory.seen, slot * this.graph.shape.vocabulary * 4, seen);
  }

  /**
   * How far this plan's prediction behind a prompt is from the exact one's: KL in nats. The exact plan takes over
   * when that is more than the tolerance.
   */
  async #divergence(exact: Plan): Promise<number> {
    const { capacity } = this.memory;
    const length = Math.min(64, capacity.stepTokens, capacity.context);
    const { vocabulary } = this.graph.shape;
    const prompt = Array.from({ length }, (_, i) => (i * 7919 + 13) % vocabulary);
    const step = this.newStep();
    this.setPages(0, [0, 1].slice(0, capacity.pages));
    step.clear();
    step.sample(step.prefillTokens(prompt, 0, length, 0), 0, length, greedy);
    const rounded = this.plan;
    const [got] = await this.logits(step);
    this.plan = exact;
    const [expected] = await this.logits(step);
    const divergence = klDivergence(expected as Float32Array, got as Float32Array);
    if (divergence <= int8Tolerance) this.plan = rounded;
    return divergence;
  }

  destroy(): void {
    this.memory.pool.destroy();
    this.#weights.destroy();
    this.gpu.device.destroy();
  }

  /** Runs every variant once: a driver may compile at the first dispatch, and no request should wait for that. */
  async #warmUp(onProgress: (progress: LoadProgress) => void): Promise<void> {
    const { slots, stepTokens, context } = this.memory.capacity;
    const counts = [1, 4, 8, slots].filter(
      (count, index, all) => count <= stepSamples(slots) && all.indexOf(count) === index,
    );
    const total = counts.length + 1;
    const step = this.newStep();
    for (const [done, count] of counts.entries()) {
      onProgress({ stage: 'warm-up', done, total });
      step.clear();
      // Penalties that change nothing, so that their kernel is compiled too.
      const sampling = { ...greedy, repetitionPenalty: 1 + 1e-7 };
      for (let n = 0; n < count; n++) {
        // More rows than slots are drafts being verified.
        const row = n < slots ? step.decodeToken(0, 0, n) : step.verifyTokens(0, [], 0, 0);
        step.sample(row, n % slots, 1, sampling);
      }
      await this.submit(step);
    }
    onProgress({ stage: 'warm-up', done: counts.length, total });
    step.clear();
    // More rows than kernels for answers serve.
    const length = Math.min(Math.max(this.memory.tileTokens, 16), stepTokens, context);
    const prompt = Array.from({ length }, () => 0);
    step.sample(step.prefillTokens(prompt, 0, length, 0), 0, length, greedy);
    await this.submit(step);
    if (this.memory.maxSplits > 1) {
      step.clear();
      step.sample(step.decodeToken(0, this.memory.splitTokens, 0), 0, this.memory.splitTokens + 1, greedy);
      await this.submit(step);
    }
    onProgress({ stage: 'warm-up', done: total, total });
  }
}

/** Copies keys and values of every layer from one page to another, before the step's pass. */
function copyPage(encoder: GPUCommandEncoder, memory: Memory, shape: Shape, { from, to }: PageCopy): void {
  const bytes = pageBytesPerBinding(shape);
  const caches = Array.from({ length: shape.layers }, (_, layer) => memory.cacheOf(layer));
  const buffers = caches.flatMap(({ k, v }) => [k, v]);
  for (const [index, buffer] of buffers.entries()) {
    encoder.copyBufferToBuffer(buffer, from * bytes, memory.pageCopy, index * bytes, bytes);
  }
  for (const [index, buffer] of buffers.entries()) {
    encoder.copyBufferToBuffer(memory.pageCopy, index * bytes, buffer, to * bytes, bytes);
  }
}

const describe = (divergence: number): string =>
  divergence <= int8Tolerance
    ? `KL ${divergence.toExponential(1)} nats from exact ones`
    : `KL ${divergence.toExponential(1)} nats from exact ones is too much, so they are not`;
