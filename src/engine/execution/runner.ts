import type { StepDims } from '../../../kernels/define.ts';
import { logprobWords, maxLikely } from '../../../kernels/logprobs.ts';
import { maskWords, sampleFlags } from '../../../kernels/sample.ts';
import type { MatmulFamily } from '../../../kernels/matmul.ts';
import { type Binding, bindingsByStep, bindUnits, type LabKernel } from '../graph/bindings.ts';
import { BufferPool } from '../gpu/buffers.ts';
import { type Dispatchable, submitCompilation } from '../gpu/compile-ahead.ts';
import type { Gpu } from '../gpu/device.ts';
import { traceDispatches, type DispatchTime } from '../gpu/trace.ts';
import type { Embedding, Graph } from '../graph/graph.ts';
import type { Memory } from '../memory/memory.ts';
import { int8Tolerance, klDivergence } from './divergence.ts';
import { encodeCopies, encodeParts, forwardPart, samplingPart, wholeStep } from './encode-step.ts';
import { type PreparedModel, type LoadOptions, prepareModel } from '../loading/prepare-model.ts';
import { observeDispatches, type ObservedDispatch, type ReadSizes } from './observe-dispatches.ts';
import { type LabDispatch, separatesDecodeRows } from './plan-context.ts';
import { pipelineChoicesOf, makePlan, type Plan, fuseUnits } from './plan.ts';
import { type AttentionTiling, StepInput, maxStepSamples, requestFlagsOf } from './step.ts';
import { verifyKernels } from '../verification/verify-kernels.ts';
import { EngineError, greedySampling, type LoadProgress, type ReplacedKernel } from '../types.ts';
import { estimateUnitCost } from '../ops/index.ts';
import type { StepShape, UnitCost } from '../ops/op.ts';

/** Most steps in flight: one runs while the next is encoded. */
export const pipelineDepth = 2;

/** Plans of one graph: for steps of one token, and for all other steps. */
export interface StepPlans {
  readonly singleToken: Plan;
  readonly multiToken: Plan;
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
  boundPlans: StepPlans | undefined;
  /** Runner of the draft model on the same device. */
  draftRunner: Runner | undefined;
  /** True when rows of a table in the file are read for every step, so token ids must be known on the CPU. */
  readonly needsTokenIds: boolean;
  readonly pipelineCount: number;
  readonly weightBytes: number;
  /** Kernels that gave wrong results on this adapter and are not used. */
  replacedKernels: readonly ReplacedKernel[] = [];
  #loading: PreparedModel;
  readonly #readbacks: GPUBuffer[];
  /** A mask that allows every token. */
  readonly #allTokensMask: Uint32Array<ArrayBuffer>;
  /** Submission times of the steps in flight, oldest first. */
  readonly #submitTimes: number[] = [];
  /** Every pipeline has run once without a validation error. */
  #isWarm = false;
  /** Start times of running compilations, in `performance.now()` time. */
  readonly #compilationStarts: number[] = [];
  #compiledAt = 0;

  private constructor(parts: { gpu: Gpu; graph: Graph; plan: Plan; loading: PreparedModel }) {
    const { memory, pool, pipelines } = parts.loading;
    this.gpu = parts.gpu;
    this.graph = parts.graph;
    this.memory = memory;
    this.plan = parts.plan;
    this.needsTokenIds = parts.loading.streamed !== undefined;
    this.pipelineCount = pipelines.size;
    this.weightBytes = pool.bytes;
    this.#loading = parts.loading;
    const { embedding } = parts.graph.shape;
    const { width } = parts.graph.shape;
    const words = maxStepSamples(memory.capacity.slots) * (embedding?.dimensions ?? 1 + logprobWords + width);
    this.#readbacks = Array.from({ length: pipelineDepth }, (_, index) =>
      memory.pool.readback(`results.readback${index}`, words * 4),
    );
    this.#allTokensMask = new Uint32Array(maskWords(parts.graph.shape.vocabulary)).fill(0xffffffff);
  }

  static async load(options: LoadOptions): Promise<Runner> {
    const { gpu, graph, onProgress } = options;
    const start = performance.now();
    const loading = await prepareModel(options);
    try {
      // Pipelines compile while weights are read; only the reading reports progress meanwhile. Some drivers compile
      // at the first dispatch.
      let isReading = true;
      const weightsLoaded = loading.loadWeights().finally(() => (isReading = false));
      weightsLoaded.catch(() => undefined); // awaited below
      const plan = await makePlan({ ...loading, gpu, graph, pool: loading.memory.pool });
      const runner = new Runner({ gpu, graph, plan, loading });
      await Promise.all([weightsLoaded, runner.#warmUp((progress) => isReading || onProgress(progress))]);
      await runner.#limitRounding(options);
      runner.replacedKernels = await verifyKernels(options, loading, {
        runner,
        loadMs: () => performance.now() - start,
        plan: () => runner.plan,
        replan: (without) => runner.#replan(without, options),
      });
      runner.#isWarm = true;
      return runner;
    } catch (error) {
      loading.destroy();
      throw error;
    }
  }

  /** Drops 8-bit rounding where it changes predictions too much. */
  async #limitRounding({ onNotice }: LoadOptions): Promise<void> {
    if (!this.plan.int8) return;
    const { gpu, graph } = this;
    const { memory, tuning } = this.#loading;
    const exact = { ...this.#loading, gpu, graph, pool: memory.pool, tuning: tuning.withoutInt8() };
    const divergence = await this.#measureDivergence(await makePlan(exact));
    onNotice?.(
      `prompt activations are rounded to 8 bits where that is faster: ${describeDivergence(divergence)}`,
    );
  }

  /** Chooses other kernels in place of these. @returns the family of the new products */
  async #replan(without: Iterable<string>, options: LoadOptions): Promise<MatmulFamily> {
    const { gpu, graph, memory } = this;
    this.#loading = await this.#loading.choose(this.#loading.tuning.without(without));
    this.plan = await makePlan({ ...this.#loading, gpu, graph, pool: memory.pool });
    await this.#warmUp(options.onProgress);
    await this.#limitRounding(options);
    return this.#loading.family;
  }

  /** Lower bounds of the operations and bytes of a graph unit for one sequence in a step. */
  costOf(unit: Graph['units'][number], step: StepShape): UnitCost {
    return estimateUnitCost(unit, this.graph, this.#loading.tensors, step);
  }

  /** Bytes of weights, caches and workspace, with those of the draft model. */
  get memoryBytes(): number {
    return this.weightBytes + this.memory.pool.bytes + (this.draftRunner?.memoryBytes ?? 0);
  }

  /** How attention divides prompts and long contexts. */
  get tiling(): AttentionTiling {
    return this.#loading.tiling;
  }

  newStep(): StepInput {
    const { layout, splitTokens } = this.memory;
    return new StepInput(layout, {
      ...this.#loading.tiling,
      splitTokens,
      separatesDecodeRows: separatesDecodeRows({ gpu: this.gpu, family: this.#loading.family }),
    });
  }

  /**
   * Plans the graph with lab kernels in place of built-in ones. The plans are not used yet.
   * @param unfused see `bindUnits`
   */
  async planBindings(
    bindings: readonly Binding[],
    unfused: ReadonlyMap<string, LabKernel>,
  ): Promise<StepPlans> {
    const { gpu, graph, memory } = this;
    if (graph.shape.embedding) throw new Error('lab kernels need a model that generates text');
    const loading = this.#loading;
    const pool = new BufferPool(gpu.device);
    const planOf = async (list: readonly Binding[]): Promise<Plan> => {
      const units = bindUnits(graph, list, unfused);
      const fusedOps = fuseUnits(
        { gpu, tuning: loading.tuning },
        { ...graph, units },
        loading.family,
        loading.weights.stacks,
      );
      await loading.loadVectors(fusedOps);
      return await makePlan({ ...loading, gpu, graph, memory, pool, fusedOps });
    };
    try {
      const { singleToken, multiToken } = bindingsByStep(graph, bindings);
      const multiTokenPlan = multiToken.length > 0 ? await planOf(multiToken) : this.plan;
      const singleTokenPlan = singleToken.every((binding) => multiToken.includes(binding))
        ? multiTokenPlan
        : await planOf(singleToken);
      await this.#compileAhead([multiTokenPlan, singleTokenPlan]);
      return { singleToken: singleTokenPlan, multiToken: multiTokenPlan, destroy: () => pool.destroy() };
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
    this.#compilationStarts.push(since);
    try {
      submitCompilation(device, dispatches);
      await device.queue.onSubmittedWorkDone();
    } finally {
      this.#compilationStarts.splice(this.#compilationStarts.indexOf(since), 1);
      this.#compiledAt = performance.now();
    }
  }

  /** Start time of the oldest running compilation, which later steps wait for, in `performance.now()` time. */
  get compilingSince(): number | undefined {
    return this.#compilationStarts[0];
  }

  get boundKernels(): readonly string[] {
    const { singleToken, multiToken } = this.boundPlans ?? {};
    const dispatches = [...(singleToken?.dispatches ?? []), ...(multiToken?.dispatches ?? [])];
    return [...new Set(dispatches.flatMap(({ lab }) => lab?.kernel.name ?? []))].sort();
  }

  /** The plan for a step of these dimensions. */
  planOf(dims: StepDims, boundPlans = this.boundPlans): Plan {
    if (!boundPlans) return this.plan;
    return dims.tokens === 1 ? boundPlans.singleToken : boundPlans.multiToken;
  }

  /**
   * Start time, in `performance.now()` time, of the oldest step in flight: its submission, or the end of the
   * compilation that it may have waited for.
   */
  get oldestSubmit(): number | undefined {
    const oldest = this.#submitTimes[0];
    return oldest === undefined ? undefined : Math.max(oldest, this.#compiledAt);
  }

  /**
   * Submits a step and reads it back. Resolves with the token of each sample, in order, followed by the samples' log
   * probabilities when any is requested: [samples, logprobWords], and by their hidden states when any is requested:
   * [samples, width] f32. Where rows are streamed from the file, nothing else may be submitted or written to the step
   * until this resolves.
   * @param plan defaults to the live plan
   * @throws EngineError `model_unreadable`
   */
  async submit(step: StepInput, plan?: Plan): Promise<Uint32Array> {
    if (this.needsTokenIds) await this.#loadStreamedRows(step);
    const encoder = this.#writeStep(step);
    encodeParts(encoder, this.memory, plan ?? this.planOf(step.dims), step.dims, wholeStep);
    return this.#readSamples(encoder, step);
  }

  /**
   * Submits steps one after the other and reads them back once. Resolves with the token of each sample of each step.
   * No sample may request log probabilities, and there are at most `slots` samples in each of at most `maxDrafts`
   * steps.
   */
  async submitChain(steps: Iterable<StepInput>): Promise<Uint32Array> {
    if (this.needsTokenIds) throw new Error('a step must be read back before the ids of the next are known');
    const { queue } = this.gpu.device;
    const readback = this.#takeReadback();
    let bytes = 0;
    let last: GPUCommandEncoder | undefined;
    for (const step of steps) {
      // Steps are submitted one by one, because all of them use the same step buffer.
      if (last) queue.submit([last.finish()]);
      last = this.#writeStep(step);
      encodeParts(last, this.memory, this.planOf(step.dims), step.dims, wholeStep);
      const more = step.dims.samples * 4;
      if (more > 0) last.copyBufferToBuffer(this.memory.results, 0, readback, bytes, more);
      bytes += more;
    }
    last ??= this.gpu.device.createCommandEncoder();
    return new Uint32Array(await this.#submitAndRead(last, readback, bytes));
  }

  /**
   * Submits the part of a step up to its logits; `sample` of the same step must be submitted next. Waits as `submit`
   * does.
   */
  forward(step: StepInput): void | Promise<void> {
    if (this.needsTokenIds) return this.#loadStreamedRows(step).then(() => this.#forward(step));
    this.#forward(step);
  }

  #forward(step: StepInput): void {
    const encoder = this.#writeStep(step);
    encodeParts(encoder, this.memory, this.planOf(step.dims), step.dims, forwardPart);
    this.gpu.device.queue.submit([encoder.finish()]);
  }

  /** Submits the sampling part of a step; resolves as `submit` does. */
  async sample(step: StepInput): Promise<Uint32Array> {
    const encoder = this.gpu.device.createCommandEncoder();
    // The current plan, even if it was replaced since: the plan of the forward pass may be destroyed.
    encodeParts(encoder, this.memory, this.planOf(step.dims), step.dims, samplingPart);
    return this.#readSamples(encoder, step);
  }

  /**
   * Submits a step of an embedding model and reads it back. Resolves with one row for each sample, not normalized.
   */
  async embed(step: StepInput): Promise<Float32Array<ArrayBuffer>[]> {
    const { embedding } = this.graph.shape;
    if (!embedding) throw new Error('this model makes no embeddings');
    const { samples } = step.dims;
    const { dimensions, from } = embedding;
    const encoder = this.#writeStep(step);
    encodeParts(encoder, this.memory, this.plan, step.dims, forwardPart);
    const readback = this.#takeReadback();
    const bytes = samples * dimensions * 4;
    encoder.copyBufferToBuffer(this.memory.buffers[from], 0, readback, 0, bytes);
    const all = await this.#submitAndRead(encoder, readback, bytes);
    return Array.from(
      { length: samples },
      (_, row) => new Float32Array(all, row * dimensions * 4, dimensions),
    );
  }

  /** Loads the streamed rows of the step's tokens from the file. */
  async #loadStreamedRows(step: StepInput): Promise<void> {
    await this.#loading.streamed?.load(step.tokenIds());
  }

  /** Writes a step to the GPU, with the rows that it reads from the file. */
  async writeStep(step: StepInput): Promise<void> {
    if (this.needsTokenIds) await this.#loadStreamedRows(step);
    this.gpu.device.queue.writeBuffer(this.memory.step, 0, step.bytes());
  }

  /** Writes a step to the GPU and starts an encoder with the step's page and state copies. */
  #writeStep(step: StepInput): GPUCommandEncoder {
    const { device } = this.gpu;
    device.queue.writeBuffer(this.memory.step, 0, step.bytes());
    const encoder = device.createCommandEncoder();
    encodeCopies(encoder, this.memory, step);
    return encoder;
  }

  async #readSamples(
    encoder: GPUCommandEncoder,
    { dims, readsHiddenStates }: StepInput,
  ): Promise<Uint32Array> {
    const { results, logprobs, buffers } = this.memory;
    const readback = this.#takeReadback();
    let bytes = dims.samples * 4;
    if (bytes > 0) encoder.copyBufferToBuffer(results, 0, readback, 0, bytes);
    if (dims.needsLogprobs) {
      const more = dims.samples * logprobWords * 4;
      encoder.copyBufferToBuffer(logprobs, 0, readback, bytes, more);
      bytes += more;
    }
    if (readsHiddenStates) {
      const more = dims.samples * this.graph.shape.width * 4;
      encoder.copyBufferToBuffer(buffers.last, 0, readback, bytes, more);
      bytes += more;
    }
    return new Uint32Array(await this.#submitAndRead(encoder, readback, bytes));
  }

  #takeReadback(): GPUBuffer {
    const readback = this.#readbacks.pop();
    if (!readback) throw new Error(`more than ${pipelineDepth} steps in flight`);
    return readback;
  }

  /** Submits the encoder and reads the start of `readback`. */
  async #submitAndRead(encoder: GPUCommandEncoder, readback: GPUBuffer, bytes: number): Promise<ArrayBuffer> {
    const { device } = this.gpu;
    // A step that the device rejects leaves zeros, which would pass for tokens.
    const isWatched = !this.#isWarm;
    if (isWatched) device.pushErrorScope('validation');
    device.queue.submit([encoder.finish()]);
    const validation = isWatched ? device.popErrorScope() : undefined;
    validation?.catch(() => undefined); // when the device is lost, mapping rejects
    this.#submitTimes.push(performance.now());
    // Mapping also waits for a step without samples, which bounds the work in flight.
    await readback.mapAsync(GPUMapMode.READ);
    this.#submitTimes.shift();
    const error = await validation;
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
    await this.writeStep(step);
    return traceDispatches(this.gpu, plan, step.dims);
  }

  /** Runs a step and returns what the lab kernels of `plan` read and wrote. */
  async observe(
    step: StepInput,
    plan: Plan,
    wanted: (lab: LabDispatch) => ReadSizes | undefined,
  ): Promise<ObservedDispatch[]> {
    await this.writeStep(step);
    return observeDispatches(this.gpu, plan, step.dims, wanted);
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
  setTokenCounts(slot: number, counts: Uint32Array<ArrayBuffer>): void {
    this.gpu.device.queue.writeBuffer(
      this.memory.tokenCounts,
      slot * this.graph.shape.vocabulary * 4,
      counts,
    );
  }

  /** Writes the mask of tokens that may be sampled, one bit each: [maskWords]; undefined for all. */
  setMask(slot: number, mask: Uint32Array | undefined): void {
    const { masks } = this.memory;
    this.gpu.device.queue.writeBuffer(
      masks,
      slot * this.#allTokensMask.byteLength,
      (mask ?? this.#allTokensMask) as Uint32Array<ArrayBuffer>,
    );
  }

  /**
   * Measures the KL divergence in nats between this plan's prediction after a prompt and the exact plan's. Switches
   * to the exact plan when it exceeds the tolerance.
   */
  async #measureDivergence(exact: Plan): Promise<number> {
    const { capacity } = this.memory;
    const length = Math.min(64, capacity.stepTokens, capacity.context);
    const { vocabulary } = this.graph.shape;
    const prompt = Array.from({ length }, (_, i) => (i * 7919 + 13) % vocabulary);
    const step = this.newStep();
    this.setPages(0, [0, 1].slice(0, capacity.pages));
    step.clear();
    step.sample(step.prefillTokens(prompt, 0, length, 0), 0, length, greedySampling);
    const rounded = this.plan;
    const [got] = await this.logits(step);
    this.plan = exact;
    const [expected] = await this.logits(step);
    const divergence = klDivergence(expected as Float32Array, got as Float32Array);
    if (divergence <= int8Tolerance) this.plan = rounded;
    return divergence;
  }

  destroy(): void {
    this.boundPlans?.destroy();
    if (this.draftRunner) this.draftRunner.#loading.destroy();
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
    const counts = [1, 2, 4, 8, slots].filter(
      (count, index, all) => count <= maxStepSamples(slots) && all.indexOf(count) === index,
    );
    const total = counts.length + 1;
    const step = this.newStep();
    const warmPipelines = new Set<GPUComputePipeline>();
    const run = () => this.submit(step, unwarmedDispatches(this.plan, step.dims, warmPipelines));
    for (const [done, count] of counts.entries()) {
      onProgress({ stage: 'warm-up', done, total });
      step.clear();
      // Penalties that change nothing and masks that forbid nothing, so that their kernels are compiled, too.
      const sampling = { ...greedySampling, repetitionPenalty: 1 + 1e-7 };
      for (let n = 0; n < count; n++) {
        // Rows beyond the slots are drafts.
        const row = n < slots ? step.decodeToken(0, 0, n) : step.verifyTokens(0, [], 0, 0);
        if (n < slots) this.setMask(n, undefined);
        step.sample(row, n % slots, 1, sampling, allSampleFlags);
      }
      await run();
    }
    onProgress({ stage: 'warm-up', done: counts.length, total });
    for (const rows of warmPromptRows) {
      step.clear();
      const length = Math.min(Math.max(this.tiling.tileTokens, rows), stepTokens, context);
      const prompt = Array.from({ length }, () => 0);
      step.sample(step.prefillTokens(prompt, 0, length, 0), 0, length, greedySampling);
      await run();
    }
    const [split] = this.tiling.splits;
    if (split && split.from < context) {
      step.clear();
      step.sample(step.decodeToken(0, split.from, 0), 0, split.from + 1, greedySampling);
      await run();
    }
    onProgress({ stage: 'warm-up', done: total, total });
  }

  /** The same for embedding models: texts of one token, and longer ones. */
  async #warmUpEmbedding(embedding: Embedding, onProgress: (progress: LoadProgress) => void): Promise<void> {
    const { slots, stepTokens, context } = this.memory.capacity;
    const counts = [1, 2, 4, 8, slots].filter((count) => count <= slots);
    const lengths = [
      ...counts.map((count) => Array.from({ length: count }, () => 1)),
      ...warmPromptRows.map((rows) => [Math.min(rows, stepTokens, context)]),
    ];
    const step = this.newStep();
    for (const [done, texts] of lengths.entries()) {
      onProgress({ stage: 'warm-up', done, total: lengths.length });
      step.clear();
      for (const [slot, length] of texts.entries()) {
        const ids = Array.from({ length }, () => 0);
        step.sample(step.encodeSequence(ids, slot, embedding), slot, length, greedySampling);
      }
      await this.embed(step);
    }
    onProgress({ stage: 'warm-up', done: lengths.length, total: lengths.length });
  }
}

/** Rows of prompts of both classes that products have on GPUs: more than decode kernels support, and more than small tiles are for. */
const warmPromptRows = [16, 65];

/** All optional features of a sample. */
const allSampleFlags = requestFlagsOf({ logprobs: maxLikely }) | sampleFlags.mask;

/** The dispatches of a step whose pipelines are not in `warmPipelines`; adds them to it. */
function unwarmedDispatches(plan: Plan, dims: StepDims, warmPipelines: Set<GPUComputePipeline>): Plan {
  const dispatches = plan.dispatches.filter((dispatch) => {
    const unwarmed = pipelineChoicesOf(dispatch, dims).filter(
      (choice) => !warmPipelines.has(choice.pipeline) && !choice.grid(dims).includes(0),
    );
    for (const { pipeline } of unwarmed) warmPipelines.add(pipeline);
    return unwarmed.length > 0;
  });
  return { ...plan, dispatches };
}

const describeDivergence = (divergence: number): string =>
  divergence <= int8Tolerance
    ? `KL ${divergence.toExponential(1)} nats from exact activations`
    : `KL ${divergence.toExponential(1)} nats from exact activations is too much, so rounding is off`;
