/** Products with weight matrices. */
import { matmulFlags, withFlags } from '../../../kernels/matmul.ts';
import { type PlanContext, layerOf, stackOf, strideOf, vectorOf } from '../execution/plan-context.ts';
import { dispatchId, loopLimit, planDispatch, type PlannedDispatch } from '../execution/plan-dispatch.ts';
import { type SlicedPart, slicedPartsOf } from '../execution/weight-slices.ts';
import type { PlanUnit } from '../graph/bindings.ts';
import type { FusedOp } from '../graph/fusion.ts';
import type { BufferName, GraphNode, UnitBase } from '../graph/graph.ts';
import { stackKey } from '../graph/stack-key.ts';
import { matrixOf, type NodeBinder, type Op, unitCost } from './op.ts';

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
  readonly slice?: { readonly first: number; readonly rows: number };
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

function bindProductNodes(unit: MatmulUnit, { kernelOf, kernelFor, replace }: NodeBinder): PlanUnit[] {
  const site = { kind: 'product', unit, from: unit.from, to: unit.to } as const;
  if (unit.add) {
    // The addition runs separately and uses `normed` as scratch: it is free here, because the preceding product was
    // its last reader.
    const [product, sum] = unit.nodes as [GraphNode, GraphNode];
    const to = 'normed';
    const kernel = kernelOf(product);
    return [
      kernel
        ? replace(product, kernel, { ...site, to })
        : { ...unit, id: product.id, nodes: [product], to, add: false },
      replace(sum, kernelFor(sum), { kind: 'add', from: to }),
    ];
  }
  if (unit.nodes.length === 1) {
    const [node] = unit.nodes as [GraphNode];
    return [replace(node, kernelFor(node), site)];
  }
  let first = 0;
  return unit.nodes.map((node): PlanUnit => {
    const slice = { first, rows: node.width };
    first += node.width;
    const kernel = kernelOf(node);
    return kernel
      ? replace(node, kernel, { ...site, slice })
      : { ...unit, id: node.id, nodes: [node], slice };
  });
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
