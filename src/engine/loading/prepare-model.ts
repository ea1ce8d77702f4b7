/** Prepares memory, weights and kernel choices of a model: everything a runner is built from. */
import type { MatmulFamily } from '../../../kernels/matmul.ts';
import type { ModelFile } from '../formats/model-file.ts';
import { formatBytes } from '../format-bytes.ts';
import { withTensorViews } from '../formats/tensor-views.ts';
import type { FusedOp } from '../graph/fusion.ts';
import { BufferPool, type AllocationFailure } from '../gpu/buffers.ts';
import type { Gpu } from '../gpu/device.ts';
import { PipelineCache } from '../gpu/pipelines.ts';
import type { Graph } from '../graph/graph.ts';
import { allocateMemory, type Capacity, type Memory } from '../memory/memory.ts';
import { attentionLayers, describeTiling, fastestTiling } from '../execution/attention-tiling.ts';
import { vectorsOf, fuseUnits } from '../execution/plan.ts';
import type { Weights } from '../execution/plan-context.ts';
import type { Store, WgslSources } from '../platform.ts';
import type { AttentionTiling } from '../execution/step.ts';
import { familyOf, isMeasured, tune } from '../execution/tuner.ts';
import { Tuning } from '../execution/tuning.ts';
import { type StreamedRows, streamedRowsOf } from '../execution/streamed-rows.ts';
import { loadTimes, saveTimes } from '../execution/tuning-file.ts';
import { EngineError, type LoadProgress, type VerifyMode } from '../types.ts';
import { stackKey } from '../graph/stack-key.ts';
import { loadVerified, type VerifiedKernels } from '../verification/verified-file.ts';
import { sampledRows, sampleSizes, verifiedTokens, WeightSamples } from '../verification/weight-samples.ts';
import { type SampledRows, stacksOf, WeightLoader } from './weights.ts';

export interface LoadOptions {
  readonly gpu: Gpu;
  readonly file: ModelFile;
  readonly graph: Graph;
  readonly capacity: Capacity;
  readonly wgsl: WgslSources;
  /** Store for kernel measurements of this adapter; without it, nothing is measured. */
  readonly store?: Store | undefined;
  /** Never round activations and weights to f16 or 8 bits in products. */
  readonly exact?: boolean | undefined;
  /** Ignore earlier measurements and verifications. */
  readonly retune?: boolean | undefined;
  /** Default: `sample` with a store, else `off`. */
  readonly verify?: VerifyMode | undefined;
  readonly onProgress: (progress: LoadProgress) => void;
  readonly onNotice?: ((message: string) => void) | undefined;
}

/** A model with allocated memory and all choices made; its weights may not be loaded yet. */
export interface PreparedModel {
  /** Tensors of the graph, including views of parts of file tensors. */
  readonly tensors: ModelFile['tensors'];
  readonly memory: Memory;
  readonly pool: BufferPool;
  readonly pipelines: PipelineCache;
  readonly weights: Weights;
  /** Rows of a table that stays in the file; they must be loaded before a step is submitted. */
  readonly streamed: StreamedRows | undefined;
  readonly family: MatmulFamily;
  readonly tuning: Tuning;
  readonly fusedOps: readonly FusedOp[];
  readonly tiling: AttentionTiling;
  readonly verifyMode: VerifyMode;
  /** What earlier verifications found on this adapter. */
  readonly verified: VerifiedKernels;
  /** Seed of everything that verification chooses at random. */
  readonly seed: number;
  /** Rows of the loaded weights, for verification. */
  readonly samples: WeightSamples;
  /** The same model with its kernels chosen anew. */
  choose(tuning: Tuning): Promise<PreparedModel>;
  /** Loads the vectors that these ops need and that are not loaded yet. */
  loadVectors(fusedOps: readonly FusedOp[]): Promise<void>;
  /** Loads the weight matrices, once. */
  loadWeights(): Promise<void>;
  readonly destroy: () => void;
}

/** The device could not allocate the memory that the model needs. */
export class DeviceMemoryError extends EngineError {
  /** Bytes of the failed allocations. */
  declare readonly missingBytes: number;

  constructor(name: string, needed: number, refusals: readonly AllocationFailure[]) {
    const missingBytes = refusals.reduce((sum, { bytes }) => sum + bytes, 0);
    super(
      'model_too_large',
      `${name} needs ${formatBytes(needed)} of device memory, the device gives ${formatBytes(needed - missingBytes)}: ` +
        `${formatBytes(missingBytes)} are missing (${refusals[0]?.reason}); ` +
        'use a smaller model or quantization, or a smaller --context',
      { missingBytes },
    );
  }
}

/** Longest time that measuring kernels may delay start-up. */
const tuningBudgetMs = 20_000;

export async function prepareModel(options: LoadOptions): Promise<PreparedModel> {
  const { gpu, graph, capacity, wgsl, onProgress, store } = options;
  const verifyMode = options.verify ?? (store ? 'sample' : 'off');
  const seed = Math.floor(Math.random() * 2 ** 32);
  const file = withTensorViews(options.file, graph.views);
  const pool = new BufferPool(gpu.device);
  const workspacePool = new BufferPool(gpu.device);
  try {
    // This scope also covers writes to buffers that the device could not allocate.
    gpu.device.pushErrorScope('validation');
    workspacePool.watchAllocations();
    pool.watchAllocations();
    const memory = allocateMemory(workspacePool, graph.shape, capacity);
    const progress = weightProgress(file, graph, onProgress);
    const loader = new WeightLoader(file, pool, {
      maxBindingBytes: Math.min(
        gpu.device.limits.maxStorageBufferBindingSize,
        gpu.device.limits.maxBufferSize,
      ),
      onBytes: progress,
      sampledRows: verifyMode === 'off' ? undefined : sampledRowsFor(graph, verifyMode, seed),
    });
    const stacks = new Map(
      stacksOf(graph).map((names) => [stackKey(names), loader.allocate(names)] as const),
    );
    const streamed = streamedRowsOf(file, graph, workspacePool, capacity);
    const invalid = gpu.device.popErrorScope();
    const refusals = [...(await workspacePool.takeFailures()), ...(await pool.takeFailures())];
    if (refusals.length > 0)
      throw new DeviceMemoryError(file.name, workspacePool.bytes + pool.bytes, refusals);
    const validationError = await invalid;
    if (validationError) throw new EngineError('model_too_large', `${file.name}: ${validationError.message}`);

    const pipelines = new PipelineCache(gpu.device, wgsl);
    let loadingWeights: Promise<void> | undefined;
    const loadWeights = () => (loadingWeights ??= loader.load(stacks.values()));
    const verified = await loadVerified(options.retune ? undefined : store, gpu, wgsl);
    const excluded = new Set(Object.keys(verified.excluded));
    const vectors = new Map<string, GPUBuffer>();
    const loadVectors = async (ops: readonly FusedOp[]) => {
      for (const [key, names] of vectorsOf(ops)) {
        if (!vectors.has(key)) vectors.set(key, await loader.loadVector(names));
      }
    };
    const samples = new WeightSamples([...stacks.values()].flatMap(({ parts }) => parts));
    const choose = async (tuning: Tuning): Promise<PreparedModel> => {
      const family = familyOf({ gpu }, stacks, tuning);
      const fusedOps = fuseUnits({ gpu, tuning }, graph, family, stacks);
      await loadVectors(fusedOps);
      const tiling = fastestTiling(gpu, graph.shape, memory, tuning);
      return { ...common, family, tuning, fusedOps, tiling };
    };
    const common = {
      tensors: file.tensors,
      memory,
      pool,
      pipelines,
      weights: { stacks, vectors, streamed },
      streamed,
      verifyMode,
      verified,
      seed,
      samples,
      choose,
      loadVectors,
      loadWeights,
      destroy: () => {
        workspacePool.destroy();
        pool.destroy();
      },
    } as const;
    const planChoices = async (tuning: Tuning) => ({
      ...(await choose(tuning)),
      gpu,
      graph,
      pool: memory.pool,
    });
    return await choose(
      await loadTuning({ ...options, memory, pipelines, stacks, loadWeights, excluded, planChoices }),
    );
  } catch (error) {
    workspacePool.destroy();
    pool.destroy();
    throw error;
  }
}

/** The rows of each matrix that verification compares. */
function sampledRowsFor(graph: Graph, mode: Exclude<VerifyMode, 'off'>, seed: number): SampledRows {
  const unit = graph.units.find(({ op }) => op === 'embed');
  return sampledRows(sampleSizes[mode], seed, {
    embedding: unit?.op === 'embed' ? unit.weight : undefined,
    tokens: verifiedTokens(graph.shape.vocabulary, seed),
  });
}

/** Loads the measurements of this adapter's kernels, and makes missing ones once. */
async function loadTuning(
  context: LoadOptions & {
    memory: Memory;
    pipelines: PipelineCache;
    stacks: Parameters<typeof tune>[2];
    loadWeights: () => Promise<void>;
    excluded: ReadonlySet<string>;
    planChoices: NonNullable<Parameters<typeof isMeasured>[4]>;
  },
): Promise<Tuning> {
  const { store, gpu, wgsl, graph, stacks, excluded, planChoices, onProgress, onNotice } = context;
  const rounds = context.exact !== true;
  // Rounding a prompt changes which experts the router selects, and with them a prediction by nats.
  const limits = { f16: rounds && !graph.shape.experts, int16: rounds, excluded };
  if (!store) return new Tuning({}, limits);
  const now = () => performance.now();
  const { key, times } = await loadTimes(store, gpu, wgsl);
  // The effect of rounding on predictions is measured; its effect on embeddings would not be noticed.
  const int8 = limits.f16 && graph.shape.embedding === undefined;
  const tuning = new Tuning(context.retune ? {} : times, { int8, ...limits });
  if (await isMeasured(context, graph, stacks, tuning, planChoices)) return tuning;
  await context.loadWeights();
  const start = now();
  const { measured, complete } = await tune(context, graph, stacks, tuning, {
    budgetMs: tuningBudgetMs,
    now,
    planChoices,
    onMeasured: (done, total) => onProgress({ stage: 'measure', done, total }),
  });
  const seconds = ((now() - start) / 1000).toFixed(1);
  const family = familyOf(context, stacks, tuning).name;
  const { memory } = context;
  const tiling =
    attentionLayers(graph.shape).length > 0
      ? `; ${describeTiling(fastestTiling(gpu, graph.shape, memory, tuning), memory)}`
      : '';
  const repeatNote = complete ? 'once' : 'the rest at the next start';
  onNotice?.(
    `measured ${measured} kernels on ${gpu.facts.description} in ${seconds} s, ${repeatNote}: ${family}${tiling}`,
  );
  await saveTimes(store, key, tuning.times).catch((error: unknown) =>
    onNotice?.(`measurements could not be saved, the next start measures again: ${String(error)}`),
  );
  return tuning;
}

/** Reports progress of loading the matrices. Vectors are small, and which ones are needed is known only later. */
function weightProgress(
  file: ModelFile,
  graph: Graph,
  onProgress: (progress: LoadProgress) => void,
): (bytes: number) => void {
  const names = stacksOf(graph).flat();
  const total = names.reduce((sum, name) => sum + (file.tensors.get(name)?.sizeBytes ?? 0), 0);
  let done = 0;
  return (bytes) => {
    done += bytes;
    onProgress({ stage: 'weights', done, total });
  };
}
