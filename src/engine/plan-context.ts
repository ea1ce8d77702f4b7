/** What planning reads and makes. */
import type { Grid, StepDims } from '../../kernels/define.ts';
import type { MatmulFamily } from '../../kernels/matmul.ts';
import type { LabKernel } from './bindings.ts';
import type { Work } from './fusion.ts';
import type { BufferPool } from './gpu/buffers.ts';
import type { Gpu } from './gpu/device.ts';
import type { PipelineCache } from './gpu/pipelines.ts';
import {
  type AttentionTraits,
  type BufferName,
  type Graph,
  type GraphNode,
  layerShape,
  type Rope,
} from './graph.ts';
import { layerStrides, type Memory } from './memory.ts';
import type { StreamedPlace } from './streamed-rows.ts';
import type { Tuning } from './tuning.ts';
import { stackKey, type WeightStack } from './weights.ts';

/** A pipeline that a dispatch may run. */
export interface Choice {
  readonly upTo: number;
  /** Not where a step holds rows of answers. */
  readonly promptOnly: boolean;
  /** `builtin:<source>?<variant>`, or the name of a kernel of the lab. */
  readonly kernel: string;
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
  /** The nodes of the graph that it computes, or a part of them. */
  readonly nodes: readonly string[];
  /** Up to the logits, or from there on. */
  readonly part: 'forward' | 'sampling';
  /** Of a kernel of the lab. */
  readonly lab?: LabDispatch;
}

/** What a dispatch of a lab kernel is bound to, by the names of its contract: to look at from outside. */
export interface LabDispatch {
  readonly kernel: LabKernel;
  /** Id of the target; a matrix in several parts has several dispatches. */
  readonly target: string;
  readonly buffers: Readonly<Record<string, Bound>>;
  readonly params: Readonly<Record<string, number>>;
  /** All but `tokens` and `context`, which are a step's own. */
  readonly dims: Readonly<Record<string, number>>;
  /** Weight format, where there is one. */
  readonly format?: string;
}

export interface Weights {
  readonly stacks: ReadonlyMap<string, WeightStack>;
  readonly vectors: ReadonlyMap<string, GPUBuffer>;
  /** Rows of a table that stays in the file: those of a step's tokens. */
  readonly streamed?: StreamedPlace | undefined;
}

export interface PlanContext {
  readonly gpu: Gpu;
  readonly pipelines: PipelineCache;
  readonly graph: Graph;
  readonly memory: Memory;
  readonly weights: Weights;
  readonly works: readonly Work[];
  readonly family: MatmulFamily;
  readonly tuning: Tuning;
  /** Owns what a plan needs of its own. */
  readonly pool: BufferPool;
}

export type Bound = GPUBuffer | GPUBufferBinding;

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
 * Elements from row to row of a buffer.
 * @param layer whose sizes they are, where layers differ
 */
export function strideOf({ graph, memory }: PlanContext, buffer: BufferName, layer?: number): number {
  const own: Partial<Record<BufferName, number>> =
    layer === undefined || !graph.shape.perLayer ? {} : layerStrides(layerShape(graph.shape, layer));
  return own[buffer] ?? memory.strides[buffer];
}

/** The layer that a unit's nodes are of. */
export const layerOf = ({ nodes }: { readonly nodes: readonly GraphNode[] }): number | undefined =>
  nodes[0]?.layer;

/** A rotation and its table; without one, a rotation of no elements. */
export function rotationOf(
  { graph, memory }: PlanContext,
  index: number | undefined,
): Pick<Rope, 'rotary' | 'style'> & { table: GPUBuffer } {
  if (index === undefined) return { rotary: 0, style: 'interleaved', table: memory.nothing };
  const rope = graph.shape.ropes[index];
  const table = memory.ropeTables[index];
  if (!rope || !table) throw new Error(`no rotation ${index}`);
  return { rotary: rope.rotary, style: rope.style, table };
}

/** Positions that a query sees, its own included; 0: all. A window that no text can leave is none. */
export function windowOf({ memory }: PlanContext, { window }: Pick<AttentionTraits, 'window'>): number {
  return window < memory.capacity.context ? window : 0;
}
