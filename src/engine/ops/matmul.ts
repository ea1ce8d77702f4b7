/** Products with weight matrices. */
import { activationCodes } from '../../../kernels/contracts.ts';
import { averageBlockBytes, weightFormat } from '../../../kernels/formats.ts';
import { matmulFlags, withFlags } from '../../../kernels/matmul.ts';
import { type PlanContext, layerOf, stackOf, strideOf, vectorOf } from '../execution/plan-context.ts';
import { dispatchId, loopLimit, planDispatch, type PlannedDispatch } from '../execution/plan-dispatch.ts';
import { bindRange, type SlicedPart, slicedPartsOf } from '../execution/weight-slices.ts';
import type { PlanUnit } from '../graph/bindings.ts';
import type { FusedOp } from '../graph/fusion.ts';
import type { BufferName, GraphNode, UnitBase } from '../graph/graph.ts';
import { stackKey } from '../graph/stack-key.ts';
import { addSite } from './norm-add.ts';
import type { Activation } from './gated-activation.ts';
import { type BindingSite, matrixOf, type NodeBinder, type Op, type RowSlice, unitCost } from './op.ts';

/** A product with one weight matrix, or with several of the same width stacked by rows. */
export interface MatmulUnit extends UnitBase {
  readonly op: 'matmul';
  readonly weights: readonly string[];
  /** One for each weight, or none. */
  readonly biases: readonly string[];
  readonly from: BufferName;
  /** Rows of `from` are the raw residual stream, whose values may exceed f16. */
  readonly unbounded?: boolean;
  readonly to: BufferName;
  /** Factor for the product including its bias. */
  readonly scale: number;
  /** Add the result to `to` (residual connection) instead of overwriting it. */
  readonly add: boolean;
  readonly sampled: boolean;
  /** Only these rows of the stack; lab kernels compute the others. */
  readonly slice?: RowSlice;
}

export const matmul: Op<MatmulUnit> = {
  plan: planMatmul,
  vectors: ({ biases }, { nextNormWeight }) => [[...biases, ...[nextNormWeight ?? []].flat()]],
  cost(unit, { tokens, samples, tensors }) {
    const matrices = unit.weights.map((name) => matrixOf(tensors, name));
    const count = unit.sampled ? samples : tokens;
    const rows = sum(matrices.map((matrix) => matrix.rows));
    const columns = matrices[0]?.columns ?? 0;
    // A residual is read before it is written.
    const values = count * (columns + rows * (unit.add ? 2 : 1));
    const weightBytes = sum(matrices.map((matrix) => matrix.bytes));
    return unitCost(count === 0 ? 0 : 2 * count * rows * columns, values, {
      weightBytes: count === 0 ? 0 : weightBytes,
    });
  },
  matrices: ({ weights }) => weights,
  bind: bindProductNodes,
  span(unit) {
    const op = unit.add ? 'matmul_add' : unit.nodes.length > 1 ? 'matmul' : undefined;
    return op === undefined ? undefined : { op, site: productSite(unit) };
  },
};

function planMatmul(context: PlanContext, unit: MatmulUnit, fusedOp: FusedOp): Promise<PlannedDispatch[]> {
  const { memory, graph, family, tuning } = context;
  const { nextNormWeight, appliesInputNorm = false, gated } = fusedOp;
  const { width, eps } = graph.shape;
  const biased = unit.biases.length > 0;
  const vectors = [...unit.biases, ...(nextNormWeight === undefined ? [] : [nextNormWeight])];
  const stack = stackOf(context, unit.weights);
  const rows = stack.parts.reduce((sum, part) => sum + part.rows, 0);
  const to = gated ? 'activated' : unit.to;
  const flags =
    (biased ? matmulFlags.bias : 0) |
    (unit.add ? matmulFlags.add : 0) |
    (unit.sampled ? matmulFlags.sampled : 0) |
    (appliesInputNorm ? matmulFlags.normIn : 0) |
    (nextNormWeight === undefined ? 0 : matmulFlags.normOut) |
    (gated ? matmulFlags.gated : 0) |
    (gated === 'gelu_tanh' ? matmulFlags.geluTanh : 0);
  const buffers = {
    vectors: vectors.length > 0 ? vectorOf(context, stackKey(vectors)) : memory.dummyRead,
    x: memory.buffers[unit.from],
    y: memory.buffers[to],
    squares: appliesInputNorm || nextNormWeight !== undefined ? memory.squares : memory.dummyWrite,
    scaled: nextNormWeight === undefined ? memory.scratch : memory.buffers.normed,
  };
  const dispatch = (part: SlicedPart, index: number) =>
    planDispatch(
      context,
      dispatchId(unit.id, index),
      tuning.choose(family, part, unit.unbounded).map((option) => withFlags(option, flags)),
      {
        rows: part.rows,
        blocks: part.blocks,
        out_stride: strideOf(context, to, layerOf(unit)),
        out_offset: part.firstRow,
        flags,
        bias_offset: part.firstRow,
        norm_weight_offset: (biased ? rows : 0) + part.firstRow,
        half: part.rows / 2,
        parts: Math.ceil(width / (family.rowsPerPartialSum || 4)),
        width,
        eps,
        loop_limit: loopLimit,
        scale: unit.scale,
      },
      { quants: part.quants, scales: part.scales, ...buffers },
      unit.sampled ? 'samples' : 'tokens',
    );
  return Promise.all(slicedPartsOf(context, stack, unit.slice).map(dispatch));
}

/** How a lab kernel differs from its unit. */
interface ProductChanges {
  readonly from?: BufferName;
  readonly to?: BufferName;
  readonly slice?: RowSlice;
  /** Weight of the preceding norm, when the kernel includes it. */
  readonly normWeight?: string | undefined;
  /** Activation of a product of gate and up, when the kernel includes it. */
  readonly gated?: Activation | undefined;
}

/** Tensors of a lab kernel of `matmul` and of the contracts that extend it. */
export const productSite = (
  unit: MatmulUnit,
  { from = unit.from, to = unit.to, slice, normWeight, gated }: ProductChanges = {},
): BindingSite => ({
  from,
  ...(slice ? { slice } : {}),
  vectors: [unit.biases, normWeight === undefined ? [] : [normWeight]],
  inputs(context) {
    const { memory, graph } = context;
    const biases = unit.biases.length > 0 ? vectorOf(context, stackKey(unit.biases)) : undefined;
    const parts = slicedPartsOf(context, stackOf(context, unit.weights), slice);
    // A kernel expects the rows of up after those of gate, in the same buffer and format.
    if (gated && parts.length > 1) {
      throw new Error(
        `${stackKey(unit.weights)} are stored in ${parts.length} parts and cannot be read by one kernel`,
      );
    }
    return parts.map((part) => {
      const { blocks, format } = part;
      const rows = gated ? part.rows / 2 : part.rows;
      return {
        buffers: {
          quants: part.quants,
          scales: part.scales,
          x: memory.buffers[from],
          y: memory.buffers[to],
          bias: biases ? bindRange(context, biases, part.firstRow * 4, rows * 4) : memory.dummyRead,
          ...(normWeight === undefined ? {} : { norm_weight: vectorOf(context, normWeight) }),
        },
        params: {
          rows,
          blocks,
          x_stride: strideOf(context, from, layerOf(unit)),
          y_stride: strideOf(context, to, layerOf(unit)),
          y_offset: gated ? 0 : part.firstRow,
          has_bias: Number(biases !== undefined),
          eps: graph.shape.eps,
          ...(gated ? { activation: activationCodes[gated] } : { scale: unit.scale }),
        },
        dims: { rows, columns: blocks * 32, blocks, block_bytes: averageBlockBytes(weightFormat(format)) },
        rows: unit.sampled ? 'samples' : 'tokens',
        format,
      };
    });
  },
});

function bindProductNodes(unit: MatmulUnit, { kernelOf, kernelFor, replace }: NodeBinder): PlanUnit[] {
  if (unit.add) {
    // The addition runs separately and uses `normed` as scratch: it is free here, because the preceding product was
    // its last reader.
    const [product, sum] = unit.nodes as [GraphNode, GraphNode];
    const to = 'normed';
    const kernel = kernelOf(product);
    return [
      kernel
        ? replace(product, kernel, productSite(unit, { to }))
        : { ...unit, id: product.id, nodes: [product], to, add: false },
      replace(sum, kernelFor(sum), addSite(to)),
    ];
  }
  if (unit.nodes.length === 1) {
    const [node] = unit.nodes as [GraphNode];
    return [replace(node, kernelFor(node), productSite(unit))];
  }
  let first = 0;
  return unit.nodes.map((node): PlanUnit => {
    const slice = { first, rows: node.width };
    first += node.width;
    const kernel = kernelOf(node);
    return kernel
      ? replace(node, kernel, productSite(unit, { slice }))
      : { ...unit, id: node.id, nodes: [node], slice };
  });
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
