import { attention, attentionCombine, attentionLanes, chooseAttention } from '../../kernels/attention.ts';
import type { Variant } from '../../kernels/assemble.ts';
import { packParams, type Grid, type Kernel, type StepDims } from '../../kernels/define.ts';
import { embed } from '../../kernels/embed.ts';
import { gatedActivation } from '../../kernels/gated-activation.ts';
import { matmulFlags, type MatmulFamily, withFlags } from '../../kernels/matmul.ts';
import { chooseRmsNorm, rmsNorm } from '../../kernels/rms-norm.ts';
import { ropeKvWrite, pageTokens } from '../../kernels/rope-kv-write.ts';
import { chooseSamplePick, sampleAdjust, samplePick } from '../../kernels/sample.ts';
import type { Gpu } from './gpu/device.ts';
import type { PipelineCache } from './gpu/pipelines.ts';
import { fuse, type Work } from './fusion.ts';
import type { Memory } from './memory.ts';
import type { BufferName, Graph, MatmulUnit, Unit } from './graph.ts';
import type { Tuning } from './tuning.ts';
import { stackKey, type WeightPart, type WeightStack } from './weights.ts';

interface Choice {
  readonly upTo: number;
  /** Not where a step holds rows of answers. */
  readonly promptOnly: boolean;
  readonly pipeline: GPUComputePipeline;
  grid(dims: StepDims): Grid;
}

/** One line of the flat list that a step replays. */
export interface Dispatch {
  /** The unit's id; `#2` and so on when a unit needs several. */
  readonly id: string;
  readonly op: string;
  readonly bindGroup: GPUBindGroup;
  /** By how many rows there are: the first whose `upTo` suffices. */
  readonly choices: readonly Choice[];
  /** Which rows count. */
  readonly rows: 'tokens' | 'samples';
}

export interface Plan {
  readonly dispatches: readonly Dispatch[];
  /** Some product may round activations to 8 bits. */
  readonly int8: boolean;
}

export interface Weights {
  readonly stacks: ReadonlyMap<string, WeightStack>;
  readonly vectors: ReadonlyMap<string, GPUBuffer>;
}

interface Context {
  readonly gpu: Gpu;
  readonly pipelines: PipelineCache;
  readonly graph: Graph;
  readonly memory: Memory;
  readonly weights: Weights;
  readonly works: readonly Work[];
  readonly family: MatmulFamily;
  readonly tuning: Tuning;
}

type Bound = GPUBuffer | GPUBufferBinding;

/** Graph to dispatches: picks a kernel variant a unit, compiles it, binds its buffers. */
export async function makePlan(context: Context): Promise<Plan> {
  const lists = await Promise.all(context.works.map((work) => planWork(context, work)));
  const { weights, works, tuning, family } = context;
  const parts = works.flatMap(({ unit }) =>
    unit.op === 'matmul' ? (weights.stacks.get(stackKey(unit.weights))?.parts ?? []) : [],
  );
  const int8 = parts.some((part) => tuning.choose(family, part).some((one) => one.int8));
  return { dispatches: lists.flat(), int8 };
}

/** What this adapter's kernels join, in the order it runs. */
export function worksOf(
  gpu: Gpu,
  graph: Graph,
  family: MatmulFamily,
  stacks: ReadonlyMap<string, WeightStack>,
): Work[] {
  const lanes = attentionLanes(gpu.caps, graph.shape.headDim);
  return fuse(graph.units, {
    norms: family.part > 0,
    rotation: lanes > 0,
    // As many storage buffers as WebGPU promises; some browsers have offered fewer to compatibility devices.
    headNorms: gpu.device.limits.maxStorageBuffersPerShaderStage >= 8,
    isWhole: (unit) => stacks.get(stackKey(unit.weights))?.parts.length === 1,
  });
}

/** The vectors that a plan of these works binds: each a list of tensors that lie one after the other. */
export function vectorsOf(works: readonly Work[]): Map<string, readonly string[]> {
  const lists = works.map(({ unit, gain, headNorms }): readonly string[] => {
    if (unit.op === 'rms_norm' || unit.op === 'head_norm') return [unit.weight];
    const biases = unit.op === 'matmul' ? unit.biases : [];
    return [...biases, ...(gain === undefined ? [] : [gain]), ...(headNorms ?? [])];
  });
  return new Map(lists.filter((names) => names.length > 0).map((names) => [stackKey(names), names]));
}

/** Encodes a step into one pass; `onDispatch` may split it (for traces). */
export function encodePlan(pass: GPUComputePassEncoder, plan: Plan, dims: StepDims): void {
  for (const dispatch of plan.dispatches) encodeDispatch(pass, dispatch, dims);
}

/** False when there is nothing to do in this step. */
export function encodeDispatch(pass: GPUComputePassEncoder, dispatch: Dispatch, dims: StepDims): boolean {
  const rows = dispatch.rows === 'tokens' ? dims.tokens : dims.samples;
  const onlyPrompts = dims.answers === 0 && dispatch.rows === 'tokens';
  const choice = dispatch.choices.find((one) => rows <= one.upTo && (onlyPrompts || !one.promptOnly));
  if (!choice || rows === 0) return false;
  const [x, y, z] = choice.grid(dims);
  if (x === 0 || y === 0 || z === 0) return false;
  pass.setPipeline(choice.pipeline);
  pass.setBindGroup(0, dispatch.bindGroup);
  pass.dispatchWorkgroups(x, y, z);
  return true;
}

async function planWork(context: Context, work: Work): Promise<Dispatch[]> {
  const { unit, promptOnly = false } = work;
  switch (unit.op) {
    case 'embed':
      return planEmbed(context, unit, work);
    case 'matmul':
      return planMatmul(context, unit, work);
    case 'rms_norm':
    case 'head_norm':
      return [await planNorm(context, unit, promptOnly)];
    case 'rope_kv_write':
      return [await planRope(context, unit, promptOnly)];
    case 'attention':
      return planAttention(context, unit, work);
    case 'gated_activation':
      return [await planActivation(context, unit)];
    case 'sample':
      return planSample(context, unit);
  }
}

/** A kernel and variant that a dispatch may run as, by its number of rows. */
interface Option<V extends Variant, P extends Params> {
  readonly kernel: Kernel<V, P>;
  readonly variant: V;
  readonly upTo: number;
  readonly promptOnly?: boolean;
}

type Params = Readonly<Record<string, number>>;

/**
 * @param options at least one; their kernels are bound alike and take the same parameters
 * @param buffers by the names of the kernel's bindings; `params`, `step`, `samples` and `token` are known
 */
async function dispatchOf<V extends Variant, P extends Params>(
  context: Context,
  id: string,
  options: readonly Option<V, P>[],
  params: P,
  buffers: Readonly<Record<string, Bound>>,
  rows: Dispatch['rows'] = 'tokens',
): Promise<Dispatch> {
  const { memory, pipelines } = context;
  const compiled = await Promise.all(options.map(({ kernel, variant }) => pipelines.get(kernel, variant)));
  const first = options[0];
  const layout = compiled[0]?.layout;
  if (!first || !layout) throw new Error(`${id}: no variant`);
  const uniform = memory.pool.uniform(`${id}.params`, packParams(first.kernel, params));
  const all: Readonly<Record<string, Bound>> = {
    ...buffers,
    params: uniform,
    step: { buffer: memory.step, offset: 0, size: 16 },
    samples: { buffer: memory.step, offset: memory.layout.samples, size: memory.samplesBytes },
    token: { buffer: memory.step, offset: memory.layout.tokens },
  };
  const entries = first.kernel.bindings(first.variant).flatMap((binding, index) => {
    if (!binding) return [];
    const bound = all[binding[0]];
    if (!bound) throw new Error(`${id}: nothing bound to ${binding[0]}`);
    const resource = 'buffer' in bound ? bound : { buffer: bound };
    return [{ binding: index, resource }];
  });
  // Their layouts are equal, so one bind group serves them all.
  const bindGroup = context.gpu.device.createBindGroup({ label: id, layout, entries });
  return {
    id,
    op: first.kernel.op,
    bindGroup,
    rows,
    choices: options.map(({ kernel, variant, upTo, promptOnly = false }, index) => ({
      upTo,
      promptOnly,
      pipeline: (compiled[index] as { pipeline: GPUComputePipeline }).pipeline,
      grid: (dims) => kernel.grid(variant, params, dims),
    })),
  };
}

/** A bound that kernels hide from the compiler; more than any loop it guards. */
const many = 1024;

const always = <V extends Variant, P extends Params>(kernel: Kernel<V, P>, variant: V): Option<V, P>[] => [
  { kernel, variant, upTo: Number.POSITIVE_INFINITY },
];

function stackOf(context: Context, names: readonly string[]): WeightStack {
  const stack = context.weights.stacks.get(stackKey(names));
  if (!stack) throw new Error(`weights ${stackKey(names)} are not loaded`);
  return stack;
}

function vectorOf(context: Context, key: string): GPUBuffer {
  const vector = context.weights.vectors.get(key);
  if (!vector) throw new Error(`weights ${key} are not loaded`);
  return vector;
}

/** Elements from row to row of a buffer. */
function strideOf(context: Context, buffer: BufferName): number {
  return context.memory.strides[buffer];
}

const numbered = (id: string, index: number) => (index === 0 ? id : `${id}#${index + 1}`);

function planEmbed(
  context: Context,
  unit: Extract<Unit, { op: 'embed' }>,
  { gain }: Work,
): Promise<Dispatch[]> {
  const { memory, graph, family } = context;
  const norm = gain !== undefined;
  const joined = {
    squares: norm ? memory.squares : memory.nowhere,
    gain: norm ? vectorOf(context, gain) : memory.nothing,
    scaled: norm ? memory.buffers.normed : memory.aside,
  };
  return Promise.all(
    stackOf(context, [unit.weight]).parts.map((part, index) =>
      dispatchOf(
        context,
        numbered(unit.id, index),
        always(embed, { FORMAT: part.format, WG: 64, PART: family.part || 4 }),
        {
          rows: part.rows,
          first_row: part.firstRow,
          blocks: part.blocks,
          scale: graph.shape.embeddingScale,
          norm: norm ? 1 : 0,
        },
        {
          quants: part.quants,
          scales: part.scales,
          sampled: memory.sampled,
          y: memory.buffers.hidden,
          ...joined,
        },
      ),
    ),
  );
}

function planMatmul(context: Context, unit: MatmulUnit, work: Work): Promise<Dispatch[]> {
  const { memory, graph, family, tuning } = context;
  const { gain, normIn = false, gated = false } = work;
  const { width, eps } = graph.shape;
  const biased = unit.biases.length > 0;
  const vectors = [...unit.biases, ...(gain === undefined ? [] : [gain])];
  const stack = stackOf(context, unit.weights);
  const rows = stack.parts.reduce((sum, part) => sum + part.rows, 0);
  const to = gated ? 'activated' : unit.to;
  const flags =
    (biased ? matmulFlags.bias : 0) |
    (unit.add ? matmulFlags.add : 0) |
    (unit.sampled ? matmulFlags.sampled : 0) |
    (normIn ? matmulFlags.normIn : 0) |
    (gain === undefined ? 0 : matmulFlags.normOut) |
    (gated ? matmulFlags.gated : 0);
  const buffers = {
    vectors: vectors.length > 0 ? vectorOf(context, stackKey(vectors)) : memory.nothing,
    x: memory.buffers[unit.from],
    y: memory.buffers[to],
    squares: normIn || gain !== undefined ? memory.squares : memory.nowhere,
    scaled: gain === undefined ? memory.aside : memory.buffers.normed,
  };
  const dispatch = (part: WeightPart, index: number) =>
    dispatchOf(
      context,
      numbered(unit.id, index),
      tuning.choose(family, part).map((option) => withFlags(option, flags)),
      {
        rows: part.rows,
        blocks: part.blocks,
        out_stride: strideOf(context, to),
        out_offset: part.firstRow,
        flags,
        bias_offset: part.firstRow,
        gain_offset: (biased ? rows : 0) + part.firstRow,
        half: part.rows / 2,
        parts: Math.ceil(width / (family.part || 4)),
        width,
        eps,
        many,
      },
      { quants: part.quants, scales: part.scales, ...buffers },
      unit.sampled ? 'samples' : 'tokens',
    );
  return Promise.all(stack.parts.map(dispatch));
}

function planNorm(
  context: Context,
  unit: Extract<Unit, { op: 'rms_norm' | 'head_norm' }>,
  promptOnly: boolean,
): Promise<Dispatch> {
  const { memory, graph, gpu } = context;
  const { eps, width, headDim } = graph.shape;
  const weight = vectorOf(context, unit.weight);
  if (unit.op === 'head_norm') {
    const stride = strideOf(context, 'qkv');
    const offset = unit.firstHead * headDim;
    return dispatchOf(
      context,
      unit.id,
      always(rmsNorm, chooseRmsNorm(gpu.caps, { inPlace: true, prompt: promptOnly })),
      {
        columns: headDim,
        heads: unit.heads,
        in_stride: stride,
        in_offset: offset,
        out_stride: stride,
        out_offset: offset,
        eps,
      },
      { weight, y: memory.buffers.qkv },
    );
  }
  return dispatchOf(
    context,
    unit.id,
    always(rmsNorm, chooseRmsNorm(gpu.caps, { sampled: unit.sampled })),
    {
      columns: width,
      heads: 1,
      in_stride: strideOf(context, unit.from),
      in_offset: 0,
      out_stride: strideOf(context, unit.to),
      out_offset: 0,
      eps,
    },
    { weight, x: memory.buffers[unit.from], y: memory.buffers[unit.to] },
    unit.sampled ? 'samples' : 'tokens',
  );
}

function planRope(
  context: Context,
  unit: Extract<Unit, { op: 'rope_kv_write' }>,
  promptOnly: boolean,
): Promise<Dispatch> {
  const { memory, graph } = context;
  const { heads, kvHeads, headDim, rope } = graph.shape;
  const cache = memory.cacheOf(unit.layer);
  return dispatchOf(
    context,
    unit.id,
    always(ropeKvWrite, {
      NEOX: rope.style === 'neox',
      WG: 64,
      PAGE: pageTokens,
      PROMPT: promptOnly,
    }),
    { heads, kv_heads: kvHeads, head_dim: headDim, rotary: rope.rotary, max_pages: memory.maxPages },
    {
      qkv: memory.buffers.qkv,
      table: memory.ropeTable,
      page_table: memory.pageTable,
      k_cache: cache.k,
      v_cache: cache.v,
    },
  );
}

async function planAttention(
  context: Context,
  unit: Extract<Unit, { op: 'attention' }>,
  { rotates = false, headNorms }: Work,
): Promise<Dispatch[]> {
  const { memory, graph, gpu } = context;
  const { heads, kvHeads, headDim, rope, eps } = graph.shape;
  const cache = memory.cacheOf(unit.layer);
  const outStride = strideOf(context, 'context');
  const buffers = {
    qkv: memory.buffers.qkv,
    page_table: memory.pageTable,
    k_cache: cache.k,
    v_cache: cache.v,
    table: memory.ropeTable,
    gain: headNorms ? vectorOf(context, stackKey(headNorms)) : memory.nothing,
  };
  const rotation = rotates ? { rope: rope.style, qkNorm: headNorms !== undefined } : {};
  const params = {
    heads,
    kv_heads: kvHeads,
    max_pages: memory.maxPages,
    out_stride: outStride,
    scale: headDim ** -0.5,
    many,
    rotary: rope.rotary,
    eps,
  };
  const whole = { split_tokens: 0x7fffffff, max_splits: 1 };
  const splits = { split_tokens: memory.splitTokens, max_splits: memory.maxSplits };
  const singleTiles = {
    buffer: memory.step,
    offset: memory.layout.singleTiles,
    size: memory.singleTilesBytes,
  };
  const wideTiles = { buffer: memory.step, offset: memory.layout.wideTiles, size: memory.wideTilesBytes };
  const out = memory.buffers.context;
  const attend = (
    id: string,
    mode: Parameters<typeof chooseAttention>[2],
    own: { tiles: Bound; out: Bound; limits: typeof splits },
  ) =>
    dispatchOf(
      context,
      id,
      always(attention, chooseAttention(gpu.caps, graph.shape, mode)),
      { ...params, ...own.limits },
      { ...buffers, tiles: own.tiles, out: own.out },
    );
  const list = [
    attend(unit.id, rotation, { tiles: singleTiles, out, limits: whole }),
    attend(`${unit.id}.wide`, { wide: true }, { tiles: wideTiles, out, limits: whole }),
  ];
  // A context that is one split needs no other kernel, and none is compiled.
  if (memory.maxSplits > 1) {
    list.push(
      attend(
        `${unit.id}.split`,
        { split: true, ...rotation },
        { tiles: singleTiles, out: memory.partial, limits: splits },
      ),
      dispatchOf(
        context,
        `${unit.id}.combine`,
        always(attentionCombine, { WG: 64 }),
        { heads, head_dim: headDim, ...splits, out_stride: outStride },
        { partial: memory.partial, tiles: singleTiles, out },
      ),
    );
  }
  return Promise.all(list);
}

function planActivation(
  context: Context,
  unit: Extract<Unit, { op: 'gated_activation' }>,
): Promise<Dispatch> {
  const { memory, graph } = context;
  return dispatchOf(
    context,
    unit.id,
    always(gatedActivation, { WG: 64 }),
    { columns: graph.shape.feedForward, out_stride: strideOf(context, 'activated') },
    { gate_up: memory.buffers.gate_up, y: memory.buffers.activated },
  );
}

function planSample(context: Context, unit: Extract<Unit, { op: 'sample' }>): Promise<Dispatch[]> {
  const { memory, graph, gpu } = context;
  const params = { vocabulary: graph.shape.vocabulary };
  const { bias, seen, sampled, results } = memory;
  const { logits } = memory.buffers;
  return Promise.all([
    dispatchOf(
      context,
      `${unit.id}.adjust`,
      always(sampleAdjust, { WG: 64 }),
      params,
      { bias, seen, logits },
      'samples',
    ),
    dispatchOf(
      context,
      unit.id,
      always(samplePick, chooseSamplePick(gpu.caps)),
      { ...params, rules: 2, levels: 4 },
      { logits, seen, sampled, results },
      'samples',
    ),
  ]);
}
