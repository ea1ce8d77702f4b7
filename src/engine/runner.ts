import type { StepDims } from '../../kernels/define.ts';
import { logprobWords, mostLikely } from '../../kernels/logprobs.ts';
import { maskWords, sampleFlags } from '../../kernels/sample.ts';
import { type Binding, bindingsByStep, bindUnits, type LabKernel } from './bindings.ts';
import { BufferPool } from './gpu/buffers.ts';
import { type Dispatchable, submitCompilation } from './gpu/compile-ahead.ts';
import type { Gpu } from './gpu/device.ts';
import { traceDispatches, type DispatchTime } from './gpu/trace.ts';
import type { Embedding, Graph } from './graph.ts';
import type { Memory } from './memory.ts';
import { int8Tolerance, klDivergence } from './divergence.ts';
import { encodeCopies, encodeParts, forwardPart, samplingPart, wholeStep } from './encode-step.ts';
import { type Loading, type LoadOptions, prepare } from './loading.ts';
import { observe, type Observed, type Wanted } from './observe.ts';
import type { LabDispatch } from './plan-context.ts';
import { choiceOf, makePlan, type Plan, worksOf } from './plan.ts';
import { StepInput, stepSamples, wantsOf } from './step.ts';
import { EngineError, greedy, type LoadProgress } from './types.ts';
import { type Cost, type StepShape, unitCost } from './unit-cost.ts';

/** Most steps in flight: one runs while the next is encoded. */
export const pipelineDepth = 2;

/** Plans of one graph: for steps of one token, and for all other steps. */
export interface Plans {
  readonly one: Plan;
  readonly many: Plan;
  /** Frees resources that only these plans use. */
  destroy(): void;
}

/** A model on one device: weights, memory and plan, and the submission of steps. */
export class Runner {
  readonly gpu: Gpu;
  readonly graph: Graph;
  readonly memory: Memory;
  /** Plan with built-in kernels only. */
  plan: Plan;
  /** Plans with lab kernels; undefined when only built-in kernels run. Takes effect with the next step. */
  bound: Plans | undefined;
  /** Runner of the draft model on the same device. */
  draft: Runner | undefined;
  /** True when rows of a table in the file are read for every step, so token ids must be known on the CPU. */
  readonly needsIds: boolean;
  readonly pipelineCount: number;
  readonly weightBytes: number;
  readonly #loading: Loading;
  readonly #readbacks: GPUBuffer[];
  /** A mask that allows every token. */
  readonly #anyToken: Uint32Array<ArrayBuffer>;
  /** Submission times of the steps in flight, oldest first. */
  readonly #submitted: number[] = [];
  /** Every pipeline has run once without a validation error. */
  #warm = false;
  /** Start times of running compilations, in `performance.now()` time. */
  readonly #compilations: number[] = [];
  #compiledAt = 0;

  private constructor(parts: { gpu: Gpu; graph: Graph; plan: Plan; loading: Loading }) {
    const { memory, pool, pipelines } = parts.loading;
    this.gpu = parts.gpu;
    this.graph = parts.graph;
    this.memory = memory;
    this.plan = parts.plan;
    this.needsIds = parts.loading.streamed !== undefined;
    this.pipelineCount = pipelines.size;
    this.weightBytes = pool.bytes;
    this.#loading = parts.loading;
    const { embedding } = parts.graph.shape;
    const words = stepSamples(memory.capacity.slots) * (embedding?.dimensions ?? 1 + logprobWords);
    this.#readbacks = Array.from({ length: pipelineDepth }, (_, index) =>
      memory.pool.readback(`results.readback${index}`, words * 4),
    );
    this.#anyToken = new Uint32Array(maskWords(parts.graph.shape.vocabulary)).fill(0xffffffff);
  }

  static async load(options: LoadOptions): Promise<Runner> {
    const { gpu, graph, onProgress } = options;
    const loading = await prepare(options);
    try {
      const { memory, tuning } = loading;
      const parts = { ...loading, gpu, graph, pool: memory.pool };
      // Pipelines compile while weights are read; only the reading reports progress meanwhile. Some drivers compile
      // at the first dispatch.
      let reading = true;
      const filled = loading.fill().finally(() => (reading = false));
      filled.catch(() => undefined); // awaited below
      const plan = await makePlan(parts);
      const runner = new Runner({ gpu, graph, plan, loading });
      await Promise.all([filled, runner.#warmUp((progress) => reading || onProgress(progress))]);
      runner.#warm = true;
      if (plan.int8) {
        const divergence = await runner.#divergence(await makePlan({ ...parts, tuning: tuning.exact() }));
        options.onNotice?.(
          `prompt activations are rounded to 8 bits where that is faster: ${describe(divergence)}`,
        );
      }
      return runner;
    } catch (error) {
      loading.destroy();
      throw error;
    }
  }

  /** Lower bounds of the operations and bytes of a graph unit for one sequence in a step. */
  costOf(unit: Graph['units'][number], step: StepShape): Cost {
    return unitCost(unit, this.graph, this.#loading.tensors, step);
  }

  newStep(): StepInput {
    const { layout, tileTokens, splitTokens } = this.memory;
    return new StepInput(layout, { tileTokens, splitTokens });
  }

  /**
   * Plans the graph with lab kernels in place of built-in ones. The plans are not used yet.
   * @param unfused see `bindUnits`
   */
  async planBindings(bindings: readonly Binding[], unfused: ReadonlyMap<string, LabKernel>): Promise<Plans> {
    const { gpu, graph, memory } = this;
    if (graph.shape.embedding) throw new Error('lab kernels need a model that generates text');
    const loading = this.#loading;
    const pool = new BufferPool(gpu.device);
    const planOf = async (list: readonly Binding[]): Promise<Plan> => {
      const units = bindUnits(graph, list, unfused);
      const works = worksOf(gpu, { ...graph, units }, loading.family, loading.weights.stacks);
      await loading.loadVectors(works);
      return await makePlan({ ...loading, gpu, graph, memory, pool, works });
    };
    try {
      const { one, many } = bindingsByStep(graph, bindings);
      const manyPlan = many.length > 0 ? await planOf(many) : this.plan;
      const onePlan = one.every((binding) => many.includes(binding)) ? manyPlan : await planOf(one);
      await this.#compileAhead([manyPlan, onePlan]);
      return { one: onePlan, many: manyPlan, destroy: () => pool.destroy() };
    } catch (error) {
      pool.destroy();
      throw error;
    }
  }

  /** Compiles pipelines that the live plan does not have, so that no request waits for the driver's compiler. */
  async #compileAhead(plans: readonly Plan[]): Promise<void> {
    const { device } = this.gpu;
    const compiled = new Set(
      this.plan.dispatches.flatMap(({ choices }) => choices.map(({ pipeline }) => pipeline)),
    );
    const dispatches: Dispatchable[] = [];
    for (const { bindGroup, choices } of plans.flatMap((plan) => plan.dispatches)) {
      for (const { pipeline } of choices) {
        if (compiled.has(pipeline)) continue;
        compiled.add(pipeline);
        dispatches.push({ pipeline, bindGroups: [bindGroup] });
      }
    }
    if (dispatches.length === 0) return;
    const since = performance.now();
    this.#compilations.push(since);
    try {
      submitCompilation(device, dispatches);
      await device.queue.onSubmittedWorkDone();
    } finally {
      this.#compilations.splice(this.#compilations.indexOf(since), 1);
      this.#compiledAt = performance.now();
    }
  }

  /** Start time of the oldest running compilation, which later steps wait for, in `performance.now()` time. */
  get compilingSince(): number | undefined {
    return this.#compilations[0];
  }

  /** The plan for a step of these dimensions. */
  planOf(dims: StepDims, bound = this.bound): Plan {
    if (!bound) return this.plan;
    return dims.tokens === 1 ? bound.one : bound.many;
  }

  /**
   * Start time, in `performance.now()` time, of the oldest step in flight: its submission, or the end of the
   * compilation that it may have waited for.
   */
  get oldestSubmit(): number | undefined {
    const oldest = this.#submitted[0];
    return oldest === undefined ? undefined : Math.max(oldest, this.#compiledAt);
  }

  /**
   * Submits a step and reads it back. Resolves with the token of each sample, in order, followed by the samples' log
   * probabilities when any is requested: [samples, logprobWords]. Where rows are streamed from the file, nothing else
   * may be submitted or written to the step until this resolves.
   * @param plan defaults to the live plan
   * @throws EngineError `model_unreadable`
   */
  async submit(step: StepInput, plan?: Plan): Promise<Uint32Array> {
    if (this.needsIds) await this.#stream(step);
    const encoder = this.#begin(step);
    encodeParts(encoder, this.memory, plan ?? this.planOf(step.dims), step.dims, wholeStep);
    return this.#drawn(encoder, step);
  }

  /**
   * Submits steps one after the other and reads them back once. Resolves with the token of each sample of each step.
   * No sample may request log probabilities, and there are at most `slots` samples in each of at most `maxDrafts`
   * steps.
   */
  async submitChain(steps: Iterable<StepInput>): Promise<Uint32Array> {
    if (this.needsIds) throw new Error('a step must be read back before the ids of the next are known');
    const { queue } = this.gpu.device;
    const readback = this.#takeReadback();
    let bytes = 0;
    let last: GPUCommandEncoder | undefined;
    for (const step of steps) {
      // Steps are submitted one by one, because all of them use the same step buffer.
      if (last) queue.submit([last.finish()]);
      last = this.#begin(step);
      encodeParts(last, this.memory, this.planOf(step.dims), step.dims, wholeStep);
      const more = step.dims.samples * 4;
      if (more > 0) last.copyBufferToBuffer(this.memory.results, 0, readback, bytes, more);
      bytes += more;
    }
    last ??= this.gpu.device.createCommandEncoder();
    return new Uint32Array(await this.#read(last, readback, bytes));
  }

  /**
   * Submits the part of a step up to its logits; `sample` of the same step must be submitted next. Waits as `submit`
   * does.
   */
  forward(step: StepInput): void | Promise<void> {
    if (this.needsIds) return this.#stream(step).then(() => this.#forward(step));
    this.#forward(step);
  }

  #forward(step: StepInput): void {
    const encoder = this.#begin(step);
    encodeParts(encoder, this.memory, this.planOf(step.dims), step.dims, forwardPart);
    this.gpu.device.queue.submit([encoder.finish()]);
  }

  /** Submits the sampling part of a step; resolves as `submit` does. */
  async draw(step: StepInput): Promise<Uint32Array> {
    const encoder = this.gpu.device.createCommandEncoder();
    // The current plan, even if it was replaced since: the plan of the forward pass may be destroyed.
    encodeParts(encoder, this.memory, this.planOf(step.dims), step.dims, samplingPart);
    return this.#drawn(encoder, step);
  }

  /**
   * Submits a step of an embedding model and reads it back. Resolves with one row for each sample, not normalized.
   */
  async embed(step: StepInput): Promise<Float32Array<ArrayBuffer>[]> {
    const { embedding } = this.graph.shape;
    if (!embedding) throw new Error('this model makes no embeddings');
    const { samples } = step.dims;
    const { dimensions, from } = embedding;
    const encoder = this.#begin(step);
    encodeParts(encoder, this.memory, this.plan, step.dims, forwardPart);
    const readback = this.#takeReadback();
    const bytes = samples * dimensions * 4;
    encoder.copyBufferToBuffer(this.memory.buffers[from], 0, readback, 0, bytes);
    const all = await this.#read(encoder, readback, bytes);
    return Array.from(
      { length: samples },
      (_, row) => new Float32Array(all, row * dimensions * 4, dimensions),
    );
  }

  /** Loads the streamed rows of the step's tokens from the file. */
  async #stream(step: StepInput): Promise<void> {
    await this.#loading.streamed?.fill(step.ids());
  }

  /** Writes a step to the GPU and starts an encoder with the step's page and state copies. */
  #begin(step: StepInput): GPUCommandEncoder {
    const { device } = this.gpu;
    device.queue.writeBuffer(this.memory.step, 0, step.bytes());
    const encoder = device.createCommandEncoder();
    encodeCopies(encoder, this.memory, step);
    return encoder;
  }

  async #drawn(encoder: GPUCommandEncoder, { dims }: StepInput): Promise<Uint32Array> {
    const { results, logprobs } = this.memory;
    const readback = this.#takeReadback();
    let bytes = dims.samples * 4;
    if (bytes > 0) encoder.copyBufferToBuffer(results, 0, readback, 0, bytes);
    if (dims.logprobs) {
      const more = dims.samples * logprobWords * 4;
      encoder.copyBufferToBuffer(logprobs, 0, readback, bytes, more);
      bytes += more;
    }
    return new Uint32Array(await this.#read(encoder, readback, bytes));
  }

  #takeReadback(): GPUBuffer {
    const readback = this.#readbacks.pop();
    if (!readback) throw new Error(`more than ${pipelineDepth} steps in flight`);
    return readback;
  }

  /** Submits the encoder and reads the start of `readback`. */
  async #read(encoder: GPUCommandEncoder, readback: GPUBuffer, bytes: number): Promise<ArrayBuffer> {
    const { device } = this.gpu;
    // A step that the device rejects leaves zeros, which would pass for tokens.
    const watched = !this.#warm;
    if (watched) device.pushErrorScope('validation');
    device.queue.submit([encoder.finish()]);
    const refusal = watched ? device.popErrorScope() : undefined;
    refusal?.catch(() => undefined); // when the device is lost, mapping rejects
    this.#submitted.push(performance.now());
    // Mapping also waits for a step without samples, which bounds the work in flight.
    await readback.mapAsync(GPUMapMode.READ);
    this.#submitted.shift();
    const error = await refusal;
    if (error) throw new EngineError('unsupported_model', `the device refuses a step: ${error.message}`);
    const result = readback.getMappedRange().slice(0, bytes);
    readback.unmap();
    this.#readbacks.push(readback);
    return result;
  }

  /** Logits of every sample of one step, after bias and penalties. For tests and the lab. */
  async logits(step: StepInput, plan?: Plan): Promise<Float32Array[]> {
    await this.submit(step, plan);
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
  async trace(step: StepInput, plan = this.planOf(step.dims)): Promise<DispatchTime[]> {
    if (this.needsIds) await this.#stream(step);
    this.gpu.device.queue.writeBuffer(this.memory.step, 0, step.bytes());
    return traceDispatches(this.gpu, plan, step.dims);
  }

  /** Runs a step and returns what the lab kernels of `plan` read and wrote. */
  async observe(
    step: StepInput,
    plan: Plan,
    wanted: (lab: LabDispatch) => Wanted | undefined,
  ): Promise<Observed[]> {
    if (this.needsIds) await this.#stream(step);
    this.gpu.device.queue.writeBuffer(this.memory.step, 0, step.bytes());
    return observe(this.gpu, plan, step.dims, wanted);
  }

  /** Writes a slot's page table from index `first` on; `pages` are all pages of the sequence, by position. */
  setPages(slot: number, pages: readonly number[], first = 0): void {
    const { pageTable, maxPages } = this.memory;
    const added = new Uint32Array(first === 0 ? pages : pages.slice(first));
    this.gpu.device.queue.writeBuffer(pageTable, (slot * maxPages + first) * 4, added);
  }

  /** Writes the request's logit bias: [vocabulary]. */
  setBias(slot: number, bias: Float32Array<ArrayBuffer>): void {
    this.gpu.device.queue.writeBuffer(this.memory.bias, slot * this.graph.shape.vocabulary * 4, bias);
  }

  /**
   * Writes the token counts of penalties: [vocabulary], bit 31 set for tokens of the prompt, the lower bits the count
   * in the output.
   */
  setSeen(slot: number, seen: Uint32Array<ArrayBuffer>): void {
    this.gpu.device.queue.writeBuffer(this.memory.seen, slot * this.graph.shape.vocabulary * 4, seen);
  }

  /** Writes the mask of tokens that may be sampled, one bit each: [maskWords]; undefined for all. */
  setMask(slot: number, mask: Uint32Array | undefined): void {
    const { masks } = this.memory;
    this.gpu.device.queue.writeBuffer(
      masks,
      slot * this.#anyToken.byteLength,
      (mask ?? this.#anyToken) as Uint32Array<ArrayBuffer>,
    );
  }

  /**
   * Measures the KL divergence in nats between this plan's prediction after a prompt and the exact plan's. Switches
   * to the exact plan when it exceeds the tolerance.
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
    this.bound?.destroy();
    if (this.draft) this.draft.#loading.destroy();
    this.#loading.destroy();
    this.gpu.device.destroy();
  }

  /**
   * Runs every pipeline once, because a driver may compile at the first dispatch. It runs only the dispatches of one
   * layer: a software adapter would take seconds for every token of a large model.
   */
  async #warmUp(onProgress: (progress: LoadProgress) => void): Promise<void> {
    const { embedding } = this.graph.shape;
    if (embedding) return this.#warmUpEmbedding(embedding, onProgress);
    const { slots, stepTokens, context } = this.memory.capacity;
    const counts = [1, 4, 8, slots].filter(
      (count, index, all) => count <= stepSamples(slots) && all.indexOf(count) === index,
    );
    const total = counts.length + 1;
    const step = this.newStep();
    const warm = new Set<GPUComputePipeline>();
    const run = () => this.submit(step, notYetRun(this.plan, step.dims, warm));
    for (const [done, count] of counts.entries()) {
      onProgress({ stage: 'warm-up', done, total });
      step.clear();
      // Penalties that change nothing and masks that forbid nothing, so that their kernels are compiled, too.
      const sampling = { ...greedy, repetitionPenalty: 1 + 1e-7 };
      for (let n = 0; n < count; n++) {
        // Rows beyond the slots are drafts.
        const row = n < slots ? step.decodeToken(0, 0, n) : step.verifyTokens(0, [], 0, 0);
        if (n < slots) this.setMask(n, undefined);
        step.sample(row, n % slots, 1, sampling, everything);
      }
      await run();
    }
    onProgress({ stage: 'warm-up', done: counts.length, total });
    step.clear();
    // More rows than decode kernels support.
    const length = Math.min(Math.max(this.memory.tileTokens, 16), stepTokens, context);
    const prompt = Array.from({ length }, () => 0);
    step.sample(step.prefillTokens(prompt, 0, length, 0), 0, length, greedy);
    await run();
    if (this.memory.maxSplits > 1) {
      step.clear();
      step.sample(step.decodeToken(0, this.memory.splitTokens, 0), 0, this.memory.splitTokens + 1, greedy);
      await run();
    }
    onProgress({ stage: 'warm-up', done: total, total });
  }

  /** The same for embedding models: texts of one token, and a longer one. */
  async #warmUpEmbedding(embedding: Embedding, onProgress: (progress: LoadProgress) => void): Promise<void> {
    const { slots, stepTokens, context } = this.memory.capacity;
    const counts = [1, 2, 4, 8, slots].filter((count) => count <= slots);
    const lengths = [
      ...counts.map((count) => Array.from({ length: count }, () => 1)),
      [Math.min(64, stepTokens, context)],
    ];
    const step = this.newStep();
    for (const [done, texts] of lengths.entries()) {
      onProgress({ stage: 'warm-up', done, total: lengths.length });
      step.clear();
      for (const [slot, length] of texts.entries()) {
        const ids = Array.from({ length }, () => 0);
        step.sample(step.wholeTokens(ids, slot, embedding), slot, length, greedy);
      }
      await this.embed(step);
    }
    onProgress({ stage: 'warm-up', done: lengths.length, total: lengths.length });
  }
}

/** All optional features of a sample. */
const everything = wantsOf({ logprobs: mostLikely }) | sampleFlags.mask;

/** The dispatches of a step whose pipelines are not in `warmPipelines`; adds them to it. */
function notYetRun(plan: Plan, dims: StepDims, warm: Set<GPUComputePipeline>): Plan {
  const dispatches = plan.dispatches.filter((dispatch) => {
    const choice = choiceOf(dispatch, dims);
    if (!choice || warm.has(choice.pipeline) || choice.grid(dims).includes(0)) return false;
    warm.add(choice.pipeline);
    return true;
  });
  return { ...plan, dispatches };
}

const describe = (divergence: number): string =>
  divergence <= int8Tolerance
    ? `KL ${divergence.toExponential(1)} nats from exact activations`
    : `KL ${divergence.toExponential(1)} nats from exact activations is too much, so rounding is off`;
