/** Descriptor of an op: all that the engine needs to know of it. */
import { blockColumns, quantSizeBytes, scaleSizeBytes, weightFormats } from '../../../kernels/formats.ts';
import type { BoundBuffer, Dispatch, PlanContext } from '../execution/plan-context.ts';
import type { PlannedDispatch } from '../execution/plan-dispatch.ts';
import type { ModelFile } from '../formats/model-file.ts';
import { columnsOf, rowsOf } from '../formats/rows.ts';
import type { Dims, LabKernel, LabUnit, PlanUnit } from '../graph/bindings.ts';
import type { FusedOp } from '../graph/fusion.ts';
import type { BufferName, GraphNode, LayerShape, Shape } from '../graph/graph.ts';

type Tensors = ModelFile['tensors'];

/** An op that a plan runs. */
export interface PlanOp<Unit> {
  /** Chooses kernel variants for a unit, compiles them, and binds their buffers. */
  readonly plan: (
    context: PlanContext,
    unit: Unit,
    fusedOp: FusedOp,
  ) => Promise<PlannedDispatch | PlannedDispatch[]>;
  /** Its plan may leave choices to measurements (`PlanContext.collect`). Default: it has none. */
  readonly hasChoices?: boolean;
  /** The vectors that the plan binds, each a list of tensors that are stored consecutively. Default: none. */
  readonly vectors?: (unit: Unit, fusedOp: FusedOp) => readonly (readonly string[])[];
}

/** An op of the graph. */
export interface Op<Unit> extends PlanOp<Unit> {
  /** Weight matrices that are loaded as one stack. Default: none. */
  readonly matrices?: (unit: Unit) => readonly string[];
  /** Operations (a multiply-add counts as two) and bytes of one unit in one step, whatever the kernel. */
  readonly cost: (unit: Unit, step: CostContext) => UnitCost;
  /**
   * Replaces the nodes of a unit that lab kernels are bound to. Default: an error, because the lab has no such op.
   * @throws Error where the contract does not cover the unit
   */
  readonly bind?: (unit: Unit, binder: NodeBinder) => PlanUnit[];
  /** Says how one lab kernel replaces the whole unit, where it has several nodes. Default: none can. */
  readonly span?: (unit: Unit) => UnitContract | undefined;
}

/** The contract that a whole unit follows. */
export interface UnitContract {
  /** The contract's op. */
  readonly op: string;
  readonly site: BindingSite;
}

/** Where a lab kernel runs in the graph. */
export interface BindingSite {
  /** What the kernel reads and writes, dispatch by dispatch: one for each part of a matrix that is stored in parts. */
  readonly inputs: (context: PlanContext) => readonly LabInputs[];
  /** The vectors among them, each a list of tensors that are stored consecutively. Default: none. */
  readonly vectors?: readonly (readonly string[])[];
  /** The activation that it reads, for ops with several. */
  readonly from?: BufferName;
  /** Rows of a stacked weight matrix. Default: all. */
  readonly slice?: RowSlice;
}

/** A row range of a stacked weight matrix. */
export interface RowSlice {
  readonly first: number;
  readonly rows: number;
}

/** Inputs of one dispatch of a lab kernel, by the names of its contract. */
export interface LabInputs {
  readonly buffers: Readonly<Record<string, BoundBuffer>>;
  readonly params: Readonly<Record<string, number>>;
  /** Dimensions except `tokens` and `context`, which depend on the step. */
  readonly dims: Readonly<Dims>;
  /** Default: tokens. */
  readonly rows?: Dispatch['rows'];
  /** Weight format, if any. */
  readonly format?: string;
}

/** Replaces nodes of one unit by lab kernels. */
export interface NodeBinder {
  /** The unit's first node, and the lab kernel bound to it. */
  readonly node: GraphNode;
  readonly boundKernel: LabKernel | undefined;
  /** The lab kernel bound to a node. */
  readonly kernelOf: (node: GraphNode) => LabKernel | undefined;
  /** The same, or a built-in kernel for the node alone. @throws Error where there is none */
  readonly kernelFor: (node: GraphNode) => LabKernel;
  readonly replace: (node: GraphNode, kernel: LabKernel, site: BindingSite) => LabUnit;
}

/** The part of a step that belongs to one sequence. */
export interface StepShape {
  readonly tokens: number;
  /** Position of the first token. */
  readonly position: number;
  readonly samples: number;
}

export interface CostContext extends StepShape {
  readonly shape: Shape;
  /** Sizes of the unit's layer. */
  readonly layer: LayerShape;
  readonly tensors: Tensors;
}

/** Lower bounds for a unit, independent of the kernel: each byte counts once for each step. */
export interface UnitCost {
  readonly flops: number;
  readonly weightBytes: number;
  readonly cacheBytes: number;
  readonly activationBytes: number;
}

/** Bytes of an activation or a vector's element. */
export const f32Bytes = 4;
/** Bytes of an element of the KV cache. */
export const f16Bytes = 2;

/** @param values activations that are read or written */
export const unitCost = (flops: number, values: number, more: Partial<UnitCost> = {}): UnitCost => ({
  flops,
  weightBytes: 0,
  cacheBytes: 0,
  activationBytes: values * f32Bytes,
  ...more,
});

interface Matrix {
  readonly rows: number;
  readonly columns: number;
  /** Bytes in the GPU layout. */
  readonly bytes: number;
}

/** @throws Error where the file has no such tensor */
export function matrixOf(tensors: Tensors, name: string): Matrix {
  const tensor = tensors.get(name);
  if (!tensor) throw new Error(`tensor ${name} is not in the file`);
  const [rows, columns] = [rowsOf(tensor), columnsOf(tensor)];
  const format = weightFormats[tensor.type];
  const extent = { rows, blocks: Math.ceil(columns / blockColumns) };
  return { rows, columns, bytes: quantSizeBytes(format, extent) + scaleSizeBytes(format, extent) };
}
