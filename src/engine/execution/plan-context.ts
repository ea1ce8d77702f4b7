/** Inputs and results of planning. */
import type { Variant } from '../../../kernels/assemble.ts';
import type { AdapterCaps, Grid, RowRange, StepDims } from '../../../kernels/define.ts';
import type { MatmulFamily } from '../../../kernels/matmul.ts';
import type { LabKernel } from '../graph/bindings.ts';
import type { FusedOp } from '../graph/fusion.ts';
import type { BufferPool } from '../gpu/buffers.ts';
import type { Gpu } from '../gpu/device.ts';
import type { PipelineCache } from '../gpu/pipelines.ts';
import { type BufferName, type Graph, type GraphNode, layerShape, type Rope } from '../graph/graph.ts';
import type { AttentionTraits } from '../ops/attention.ts';
import { defaultTiling } from './attention-tiling.ts';
import { layerStrides, type Memory } from '../memory/memory.ts';
import type { StreamedRowBuffers } from './streamed-rows.ts';
import type { MeasuredChoice } from './measured-choice.ts';
import type { AttentionTiling } from './step.ts';
import type { Tuning } from './tuning.ts';
import { stackKey } from '../graph/stack-key.ts';
import type { WeightStack } from '../loading/weights.ts';
import { capsWithout } from '../verification/excluded-kernels.ts';

/** A pipeline that a dispatch can run. */
export interface PipelineChoice {
  /** Most rows of its range. */
  readonly upTo: number;
  /** The rows of a step that it computes; all of them when undefined. */
  readonly rows: RowRange | undefined;
  /** `builtin:<source>?<variant>`, or the name of a lab kernel. */
  readonly kernel: string;
  /** The WGSL source and variant of a built-in kernel. */
  readonly builtin?: { readonly source: string; readonly variant: Variant };
  readonly pipeline: GPUComputePipeline;
  grid(dims: StepDims): Grid;
}

/** One entry of the flat dispatch list that a step replays. */
export interface Dispatch {
  /** Id of the unit; `#2` and so on when a unit needs several dispatches. */
  readonly id: string;
  readonly op: string;
  readonly bindGroup: GPUBindGroup;
  /** Ordered by row count: of each range of rows, the first whose `upTo` is large enough runs. */
  readonly choices: readonly PipelineChoice[];
  /** Whether the row count is that of tokens or of samples. */
  readonly rows: 'tokens' | 'samples';
  /** The graph nodes that it computes, completely or in part. */
  readonly nodes: readonly string[];
  /** `forward` up to the logits, `sampling` after them. */
  readonly part: 'forward' | 'sampling';
  /** Set for a built-in kernel. */
  readonly bound?: BoundInputs;
  /** Set for a lab kernel. */
  readonly lab?: LabDispatch;
}

/** Parameters and buffers of a built-in kernel's dispatch, by the names of its definition. */
export interface BoundInputs {
  readonly params: Readonly<Record<string, number>>;
  readonly buffers: Readonly<Record<string, BoundBuffer>>;
}

/** Bindings of a lab kernel's dispatch, by the names of its contract. */
export interface LabDispatch {
  readonly kernel: LabKernel;
  /** Id of the bind target; a matrix stored in several parts has several dispatches. */
  readonly target: string;
  readonly buffers: Readonly<Record<string, BoundBuffer>>;
  readonly params: Readonly<Record<string, number>>;
  /** Dimensions except `tokens` and `context`, which depend on the step. */
  readonly dims: Readonly<Record<string, number>>;
  /** Weight format, if any. */
  readonly format?: string;
}

export interface Weights {
  readonly stacks: ReadonlyMap<string, WeightStack>;
  readonly vectors: ReadonlyMap<string, GPUBuffer>;
  /** GPU buffers with the rows of a step's tokens from a table that stays in the file. */
  readonly streamed?: StreamedRowBuffers | undefined;
}

export interface PlanContext {
  readonly gpu: Gpu;
  readonly pipelines: PipelineCache;
  readonly graph: Graph;
  readonly memory: Memory;
  readonly weights: Weights;
  readonly fusedOps: readonly FusedOp[];
  readonly family: MatmulFamily;
  readonly tuning: Tuning;
  /** Owns the buffers that belong to the plan itself. */
  readonly pool: BufferPool;
  /** Default: the tiling that the memory is made for. */
  readonly tiling?: AttentionTiling;
  /** Called with every choice of the plan. Nothing is compiled or bound, and the plan cannot run. */
  readonly collect?: (choice: MeasuredChoice) => void;
}

export const tilingOf = ({ tiling, memory }: Pick<PlanContext, 'tiling' | 'memory'>): AttentionTiling =>
  tiling ?? defaultTiling(memory);

/**
 * Rows that are decoded and rows of prompts run on kernels that round differently, so each must always run on those of its
 * kind (`StepInput.separatesDecodeRows`).
 */
export const separatesDecodeRows = ({ gpu, family }: Pick<PlanContext, 'gpu' | 'family'>): boolean =>
  !gpu.caps.software || family.name === 'row-a-subgroup';

/** The adapter's capabilities that a kernel may use: variants that gave wrong results are excluded. */
export const kernelCaps = (
  { gpu, tuning }: Pick<PlanContext, 'gpu' | 'tuning'>,
  source: string,
  format?: string,
): AdapterCaps => capsWithout(gpu.caps, source, tuning.excluded, format);

export type BoundBuffer = GPUBuffer | GPUBufferBinding;

export function stackOf(context: PlanContext, names: readonly string[]): WeightStack {
  const stack = context.weights.stacks.get(stackKey(names));
  if (!stack) throw new Error(`weights ${stackKey(names)} are not loaded`);
  return stack;
}

export function vectorOf(context: PlanContext, key: string): GPUBuffer {
  const vector = context.weights.vectors.get(key);
  if (!vector) throw new Error(`weights ${key} are not loaded`);
  return vector;
}

/**
 * Elements between consecutive rows of a buffer.
 * @param layer the layer that determines the sizes, when layers differ
 */
export function strideOf({ graph, memory }: PlanContext, buffer: BufferName, layer?: number): number {
  const own: Partial<Record<BufferName, number>> =
    layer === undefined || !graph.shape.perLayer ? {} : layerStrides(layerShape(graph.shape, layer));
  return own[buffer] ?? memory.strides[buffer];
}

/** The layer of a unit's nodes. */
export const layerOf = ({ nodes }: { readonly nodes: readonly GraphNode[] }): number | undefined =>
  nodes[0]?.layer;

/** A rotary embedding and its table; for `undefined`, one that rotates no elements. */
export function rotationOf(
  { graph, memory }: PlanContext,
  index: number | undefined,
): Pick<Rope, 'rotary' | 'style'> & { table: GPUBuffer } {
  if (index === undefined) return { rotary: 0, style: 'interleaved', table: memory.dummyRead };
  const rope = graph.shape.ropes[index];
  const table = memory.ropeTables[index];
  if (!rope || !table) throw new Error(`no rotation ${index}`);
  return { rotary: rope.rotary, style: rope.style, table };
}

/**
 * Number of positions that a query attends to, including its own; 0 for all. A window at least as long as the context
 * is 0.
 */
export function windowOf({ memory }: PlanContext, { window }: Pick<AttentionTraits, 'window'>): number {
  return window < memory.capacity.context ? window : 0;
}

/** The spans of a step's sequences, for ops with a state. */
export const spansOf = ({ memory }: PlanContext): BoundBuffer => ({
  buffer: memory.step,
  offset: memory.layout.spans,
});
