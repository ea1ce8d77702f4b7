import { blockColumns } from '../../../kernels/formats.ts';
import { choosePerLayerJoin, perLayerJoin as kernel } from '../../../kernels/per-layer.ts';
import { kernelCaps, type PlanContext, vectorOf } from '../execution/plan-context.ts';
import { planDispatch, singleOption, type PlannedDispatch } from '../execution/plan-dispatch.ts';
import type { UnitBase } from '../graph/graph.ts';
import { matrixOf, type Op, unitCost } from './op.ts';

/**
 * `per_layer` holds a projection of the embedding, [layers, elements of a layer's input]. Each layer's part is
 * normalized; the token's row of `rows`, streamed from the file, times `rowScale` is added; the sum is multiplied
 * by `scale`.
 */
export interface PerLayerJoinUnit extends UnitBase {
  readonly op: 'per_layer_join';
  readonly weight: string;
  readonly rows: string;
  readonly rowScale: number;
  readonly scale: number;
}

export const perLayerJoin: Op<PerLayerJoinUnit> = {
  plan: planPerLayerJoin,
  vectors: ({ weight }) => [[weight]],
  cost(unit, { tokens, shape: { layers, layerInput = 0 }, tensors }) {
    const values = tokens * layers * layerInput;
    const { rows, bytes } = matrixOf(tensors, unit.rows);
    return unitCost(6 * values, 2 * values, { weightBytes: (tokens * bytes) / rows });
  },
};

async function planPerLayerJoin(context: PlanContext, unit: PerLayerJoinUnit): Promise<PlannedDispatch> {
  const { memory, graph, weights } = context;
  const { layers, layerInput = 0, eps } = graph.shape;
  const { streamed } = weights;
  if (streamed?.tensor !== unit.rows) throw new Error(`${unit.id}: rows of ${unit.rows} are not streamed`);
  const { format, quants, scales } = streamed;
  const params = {
    columns: layerInput,
    layers,
    blocks: (layers * layerInput) / blockColumns,
    eps,
    row_scale: unit.rowScale,
    scale: unit.scale,
  };
  const buffers = { quants, scales, weight: vectorOf(context, unit.weight), y: memory.buffers.per_layer };
  return planDispatch(
    context,
    unit.id,
    singleOption(kernel, choosePerLayerJoin(kernelCaps(context, kernel.source, format), format)),
    params,
    buffers,
  );
}
