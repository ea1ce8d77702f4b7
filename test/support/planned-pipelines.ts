/** Plans models without a device, for every adapter, and collects the pipelines that the plans ask for. */
import { expect } from 'vitest';
import { globals } from 'webgpu';
import { type Variant, variantKey } from '../../kernels/assemble.ts';
import { wideTileOptions } from '../../kernels/attention-choices.ts';
import { contracts } from '../../kernels/contracts.ts';
import { cartesianProduct, type Kernel, subgroupSizes } from '../../kernels/define.ts';
import { type MatmulFamily, matmulFamilies } from '../../kernels/matmul.ts';
import { attentionLayers, defaultTiling } from '../../src/engine/execution/attention-tiling.ts';
import type { PlanContext } from '../../src/engine/execution/plan-context.ts';
import { makePlan, fuseUnits, vectorsOf } from '../../src/engine/execution/plan.ts';
import { streamedRowsOf } from '../../src/engine/execution/streamed-rows.ts';
import {
  type ChosenMatmul,
  type KernelOption,
  type KernelTimes,
  optionKey,
  type ProductShape,
  Tuning,
} from '../../src/engine/execution/tuning.ts';
import { withTensorViews } from '../../src/engine/formats/tensor-views.ts';
import { BufferPool } from '../../src/engine/gpu/buffers.ts';
import { type Gpu, openGpu } from '../../src/engine/gpu/device.ts';
import type { PipelineCache } from '../../src/engine/gpu/pipelines.ts';
import { type Binding, bindUnits, type LabKernel } from '../../src/engine/graph/bindings.ts';
import type { FusedOp } from '../../src/engine/graph/fusion.ts';
import { type Graph, layerShape } from '../../src/engine/graph/graph.ts';
import { stackKey } from '../../src/engine/graph/stack-key.ts';
import { stacksOf, WeightLoader } from '../../src/engine/loading/weights.ts';
import { chooseCapacity } from '../../src/engine/memory/capacity.ts';
import { chooseEmbeddingCapacity } from '../../src/engine/memory/embedding-capacity.ts';
import { allocateMemory } from '../../src/engine/memory/memory.ts';
import type { PlannedModel } from './planned-models.ts';

Object.assign(globalThis, globals);

/** What `openGpu` reads of an adapter. */
export interface AdapterTraits {
  readonly name: string;
  /** Smallest and largest subgroup size; undefined without subgroups. */
  readonly subgroups?: readonly [number, number];
  readonly f16?: boolean;
  readonly matrices?: boolean;
  readonly software?: boolean;
  /** Bytes of workgroup memory; by default, the least that WebGPU guarantees. */
  readonly workgroupMemory?: number;
  /** Bytes of a storage binding; by default, the least that WebGPU guarantees. */
  readonly binding?: number;
  /** Storage buffers of a stage; by default, the least that WebGPU guarantees. */
  readonly storageBuffers?: number;
}

const kib = 1024;
const mib = 1024 * kib;
const gib = 1024 * mib;

/** What Dawn reports of adapters of each vendor. Where subgroups have several sizes, kernels do without. */
export const vendorAdapters: readonly AdapterTraits[] = [
  { name: 'least of WebGPU' },
  { name: 'least of WebGPU, a browser with few storage buffers', storageBuffers: 4 },
  ...[4, 8, 16].map((size) => ({
    name: `llvmpipe, ${size} lanes`,
    subgroups: [size, size] as const,
    f16: true,
    software: true,
    workgroupMemory: 32 * kib,
    binding: 128 * mib,
    storageBuffers: 16,
  })),
  {
    name: 'Intel',
    subgroups: [8, 32],
    f16: true,
    workgroupMemory: 32 * kib,
    binding: gib,
    storageBuffers: 16,
  },
  {
    name: 'AMD, RDNA',
    subgroups: [32, 64],
    f16: true,
    workgroupMemory: 32 * kib,
    binding: 2 * gib,
    storageBuffers: 16,
  },
  {
    name: 'AMD, GCN',
    subgroups: [64, 64],
    f16: true,
    workgroupMemory: 32 * kib,
    binding: 2 * gib,
    storageBuffers: 16,
  },
  {
    name: 'NVIDIA',
    subgroups: [32, 32],
    f16: true,
    matrices: true,
    workgroupMemory: 48 * kib,
    binding: 4 * gib,
    storageBuffers: 16,
  },
  {
    name: 'NVIDIA without f16',
    subgroups: [32, 32],
    workgroupMemory: 48 * kib,
    binding: 2 * gib,
    storageBuffers: 16,
  },
  {
    name: 'Apple',
    subgroups: [32, 32],
    f16: true,
    workgroupMemory: 32 * kib,
    binding: 4 * gib,
    storageBuffers: 10,
  },
  { name: 'subgroups of 128', subgroups: [128, 128], f16: true },
  {
    name: 'Apple, sizes unknown',
    subgroups: [4, 64],
    f16: true,
    workgroupMemory: 32 * kib,
    binding: 4 * gib,
  },
];

const systematic = (traits: AdapterTraits): AdapterTraits => ({
  ...traits,
  name: [
    traits.subgroups ? `${traits.subgroups[0]} lanes` : 'no subgroups',
    ...(traits.software ? ['software'] : []),
    ...(traits.f16 ? ['f16'] : []),
    ...(traits.matrices ? ['matrices'] : []),
    `${(traits.workgroupMemory ?? 0) / kib} KiB`,
  ].join(', '),
});

const subgroups = [undefined, ...subgroupSizes].map((size) =>
  size === undefined ? {} : { subgroups: [size, size] as const },
);

/** Every subgroup size, on software and on hardware. */
export const adaptersBySize: readonly AdapterTraits[] = cartesianProduct({
  subgroups,
  software: [false, true],
}).map(({ subgroups: own, software }) =>
  systematic({ ...own, name: '', software, f16: true, workgroupMemory: 32 * kib }),
);

/** Every combination of the capabilities that kernels depend on. */
export const allAdapters: readonly AdapterTraits[] = cartesianProduct({
  subgroups,
  software: [false, true],
  f16: [false, true],
  matrices: [false, true],
  workgroupMemory: [16 * kib, 32 * kib],
})
  .filter(({ f16, matrices }) => f16 || !matrices)
  .map(({ subgroups: own, ...traits }) => systematic({ ...own, name: '', ...traits }));

/** A device that allocates and runs nothing, with the capabilities that the engine derives from an adapter. */
async function gpuOf(traits: AdapterTraits): Promise<Gpu> {
  const { subgroups: [smallest, largest] = [4, 128], binding = 128 * mib } = traits;
  const features = new Set([
    ...(traits.subgroups ? ['subgroups'] : []),
    ...(traits.f16 ? ['shader-f16'] : []),
    ...(traits.matrices ? ['chromium-experimental-subgroup-matrix'] : []),
  ]);
  const limits = {
    maxStorageBufferBindingSize: binding,
    maxBufferSize: Math.max(binding, 256 * mib),
    maxStorageBuffersPerShaderStage: traits.storageBuffers ?? 8,
    maxComputeWorkgroupStorageSize: traits.workgroupMemory ?? 16 * kib,
  };
  const device = {
    features,
    limits,
    lost: new Promise(() => {}),
    queue: { writeBuffer: () => {}, submit: () => {} },
    createBuffer: ({ label, size }: GPUBufferDescriptor) => ({ label, size, destroy: () => {} }),
    createBindGroup: () => ({}),
    createCommandEncoder: () => ({ copyBufferToBuffer: () => {}, finish: () => ({}) }),
  };
  const adapter = {
    features,
    limits,
    info: {
      vendor: traits.name,
      architecture: '',
      device: '',
      description: '',
      subgroupMinSize: smallest,
      subgroupMaxSize: largest,
      isFallbackAdapter: traits.software === true,
      subgroupMatrixConfigs: traits.matrices
        ? [{ componentType: 'f16', resultComponentType: 'f32', M: 16, N: 16, K: 16 }]
        : [],
    },
    requestDevice: () => Promise.resolve(device),
  };
  return await openGpu(adapter as unknown as GPUAdapter, 'none');
}

/** Most variants of a kernel that measurements choose among. */
const maxVariants = 4;

/** A tuning that chooses every option of a product that some measurements choose, and the nth variant of other kernels. */
class EveryTuning extends Tuning {
  readonly #nth: number;

  constructor(times: KernelTimes, limits: ConstructorParameters<typeof Tuning>[1], nth = 0) {
    super(times, limits);
    this.#nth = nth;
  }

  override variant<O extends KernelOption>(_: string, __: readonly string[], options: readonly O[]): O {
    expect(options.length).toBeLessThanOrEqual(maxVariants);
    return (options[this.#nth] ?? options[0]) as O;
  }

  readonly #chosen = new Map<string, ChosenMatmul[]>();

  /** Options depend on the format, and measurements on nothing else here. */
  override choose(family: MatmulFamily, product: ProductShape, unbounded = false): ChosenMatmul[] {
    const key = `${family.name} ${product.format} ${unbounded}`;
    const chosen = this.#chosen.get(key) ?? everyChoice(family, product, unbounded);
    this.#chosen.set(key, chosen);
    return chosen;
  }
}

function everyChoice(family: MatmulFamily, product: ProductShape, unbounded: boolean): ChosenMatmul[] {
  const classes = family.classes(product.format);
  const most = Math.max(...classes.map(({ options }) => options.length));
  const chosen = new Map<string, ChosenMatmul>();
  for (let fastest = 0; fastest < most; fastest++) {
    for (const rounds of [true, false]) {
      const tuning = new Tuning({}, { int8: rounds, f16: rounds, int16: rounds });
      for (const { upTo, options } of classes) {
        for (const [index, option] of options.entries())
          tuning.record(family, product, upTo, option, index === fastest ? 1 : 2);
      }
      for (const one of tuning.choose(family, product, unbounded))
        chosen.set(`${one.upTo} ${optionKey(one)}`, one);
    }
  }
  return [...chosen.values()];
}

const measuredNames = /norm$|^norm_add$|^attention$|^sample$|^logprobs$/;

/** The ops whose kernels measurements choose, apart from products: one of those that differ only in names. */
function distinctMeasuredOps(fusedOps: readonly FusedOp[], { shape }: Graph): FusedOp[] {
  const distinct = new Map<string, FusedOp>();
  for (const fusedOp of fusedOps) {
    const { unit } = fusedOp;
    if (!measuredNames.test(unit.op)) continue;
    const { window, sinks, sampled, rope, heads } = unit as object as Partial<Record<string, unknown>>;
    const { headNorms, sumNormWeight, appliesRope, writesCache, promptOnly } = fusedOp;
    const traits = [
      window,
      sinks !== undefined,
      sampled,
      rope,
      heads,
      headNorms?.length,
      sumNormWeight !== undefined,
    ];
    const layer = layerShape(shape, unit.nodes[0]?.layer);
    distinct.set(JSON.stringify([unit.op, layer, appliesRope, writesCache, promptOnly, ...traits]), fusedOp);
  }
  return [...distinct.values()];
}

/** A pipeline that a plan asked for. */
export interface PlannedPipeline {
  readonly kernel: Kernel<Variant, never>;
  readonly variant: Variant;
  /** Model, adapter and way of planning that asked for it first. */
  readonly by: string;
}

/** Pipelines by `variantKey`. */
export type PlannedPipelines = Map<string, PlannedPipeline>;

interface PlanOptions {
  /** `--context`. */
  readonly context?: number;
  /** Ids of targets that lab kernels are bound to. */
  readonly targets?: readonly { readonly id: string; readonly op: string }[];
}

/** A kernel that is never compiled. */
const labKernel = (op: string): LabKernel => ({
  name: `lab ${op}`,
  digest: op,
  contract: contracts.get(op) as LabKernel['contract'],
  code: '',
  entryPoint: 'main',
  params: 0,
  constants: {},
  grid: () => [1, 1, 1],
});
const unfused = new Map(['add', 'rope', 'kv_write'].map((op) => [op, labKernel(op)]));

/** Memory and weights of a model on an adapter that allocates nothing. */
export async function placedOn(
  { name, file: original, graph }: PlannedModel,
  traits: AdapterTraits,
  context?: number,
) {
  const gpu = await gpuOf(traits);
  const { software } = gpu.caps;
  const file = withTensorViews(original, graph.views);
  const binding = gpu.device.limits.maxStorageBufferBindingSize;
  const { embedding } = graph.shape;
  const request = {
    shape: graph.shape,
    weightBytes: 0,
    memoryBytes: undefined,
    maxBindingBytes: binding,
    software,
    slots: 8,
    name,
    ...(context === undefined ? {} : { context: Math.min(context, graph.shape.trainedContext) }),
  };
  const capacity = embedding ? chooseEmbeddingCapacity(request, embedding) : chooseCapacity(request);
  const pool = new BufferPool(gpu.device);
  // Tables of rotations are not computed: they select no kernel.
  const ropes = graph.shape.ropes.map((rope) => ({ ...rope, rotary: 0 }));
  const memory = allocateMemory(pool, { ...graph.shape, ropes }, capacity);
  const loader = new WeightLoader(file, pool, { maxBindingBytes: binding, onBytes: () => {} });
  const stacks = new Map(stacksOf(graph).map((names) => [stackKey(names), loader.allocate(names)]));
  const streamed = streamedRowsOf(file, graph, pool, capacity);
  return { gpu, graph, pool, memory, stacks, streamed };
}

/** Plans a model in each kernel family of an adapter, with every choice of tuning. */
export async function planOn(
  pipelines: PlannedPipelines,
  model: PlannedModel,
  traits: AdapterTraits,
  { context: length, targets = [] }: PlanOptions = {},
): Promise<void> {
  const { name } = model;
  const { gpu, graph, pool, memory, stacks, streamed } = await placedOn(model, traits, length);
  const bindings = targets.map(({ id, op }): Binding => ({ target: id, kernel: labKernel(op) }));
  const by = `${name} on ${traits.name}${length === undefined ? '' : `, a context of ${length}`}${targets
    .map(({ id }) => `, lab kernel at ${id}`)
    .join('')}`;
  const record = (kernel: Kernel<Variant, never>, variant: Variant) => {
    const key = variantKey(kernel.source, variant);
    if (!pipelines.has(key)) pipelines.set(key, { kernel, variant, by });
  };
  const recorder = {
    get: async (kernel: Kernel<Variant, never>, variant: Variant) => {
      record(kernel, variant);
      return { pipeline: {}, layout: {} };
    },
    getLab: async () => ({ pipeline: {}, layout: {} }),
  } as unknown as PipelineCache;
  const units = bindUnits(graph, bindings, unfused);
  for (const family of matmulFamilies(gpu.caps, true)) {
    const fusedOps = fuseUnits({ gpu, tuning: new EveryTuning({}, {}) }, { ...graph, units }, family, stacks);
    const vectors = new Map([...vectorsOf(fusedOps).keys()].map((key) => [key, pool.storage(key, 0)]));
    // Without f16, experts run on other kernels.
    for (const f16 of graph.shape.experts ? [true, false] : [true]) {
      const context: PlanContext = {
        gpu,
        pipelines: recorder,
        graph,
        memory,
        weights: { stacks, vectors, streamed },
        fusedOps,
        family,
        tuning: new EveryTuning({}, { int8: f16, f16 }),
        pool,
      };
      await makePlan(context);
      if (!f16) continue;
      const measuredOps = distinctMeasuredOps(fusedOps, graph);
      const tiles = wideTileOptions(gpu.caps, attentionLayers(graph.shape));
      for (let nth = 1; nth < maxVariants; nth++) {
        await makePlan({
          ...context,
          fusedOps: measuredOps,
          tuning: new EveryTuning({}, { int8: f16, f16 }, nth),
          tiling: { ...defaultTiling(memory), tileTokens: tiles[nth] ?? memory.tileTokens },
        });
      }
    }
    // Measurements run without flags.
    for (const { format } of [...stacks.values()].flatMap(({ parts }) => parts)) {
      for (const { options } of family.classes(format))
        for (const { kernel, variant } of options) record(kernel, variant);
    }
  }
}
