/** Plans operations that only embedding models have. */
import { gelu } from '../../../kernels/gelu.ts';
import { chooseLayerNorm, layerNorm } from '../../../kernels/layer-norm.ts';
import { pool, poolModes } from '../../../kernels/pool.ts';
import { positionEmbed } from '../../../kernels/position-embed.ts';
import type { Unit } from '../graph/graph.ts';
import { type PlanContext, stackOf, strideOf, vectorOf } from './plan-context.ts';
import { singleOption, planDispatch, dispatchId, type PlannedDispatch } from './plan-dispatch.ts';
import { stackKey } from '../loading/weights.ts';

type UnitOf<Op extends Unit['op']> = Extract<Unit, { readonly op: Op }>;

export async function planPositions(
  context: PlanContext,
  unit: UnitOf<'position_embed'>,
): Promise<PlannedDispatch[]> {
  const { memory, graph } = context;
  const hasTokenType = unit.tokenType === undefined ? 0 : 1;
  const buffers = {
    y: memory.buffers.hidden,
    token_type: unit.tokenType === undefined ? memory.dummyRead : vectorOf(context, unit.tokenType),
  };
  if (unit.positions === undefined) {
    const variant = { POSITIONS: false, FORMAT: '', WG: 64 };
    const params = { rows: 0, first_row: 0, blocks: graph.shape.width / 32, has_token_type: hasTokenType };
    return [await planDispatch(context, unit.id, singleOption(positionEmbed, variant), params, buffers)];
  }
  return await Promise.all(
    stackOf(context, [unit.positions]).parts.map((part, index) =>
      planDispatch(
        context,
        dispatchId(unit.id, index),
        singleOption(positionEmbed, { POSITIONS: true, FORMAT: part.format, WG: 64 }),
        // The token type is added only once.
        {
          rows: part.rows,
          first_row: part.firstRow,
          blocks: part.blocks,
          has_token_type: index === 0 ? hasTokenType : 0,
        },
        { ...buffers, quants: part.quants, scales: part.scales },
      ),
    ),
  );
}

export function planLayerNorm(context: PlanContext, unit: UnitOf<'layer_norm'>): Promise<PlannedDispatch> {
  const { memory, graph, gpu } = context;
  const { width, eps } = graph.shape;
  return planDispatch(
    context,
    unit.id,
    singleOption(layerNorm, chooseLayerNorm(gpu.caps)),
    { columns: width, eps },
    { affine: vectorOf(context, stackKey([unit.weight, unit.bias])), y: memory.buffers.hidden },
  );
}

export function planGelu(context: PlanContext, unit: UnitOf<'gelu'>): Promise<PlannedDispatch> {
  const { memory, graph } = context;
  return planDispatch(
    context,
    unit.id,
    singleOption(gelu, { WG: 64 }),
    { columns: graph.shape.feedForward, stride: strideOf(context, 'activated') },
    { y: memory.buffers.activated },
  );
}

export function planPool(context: PlanContext, unit: UnitOf<'pool'>): Promise<PlannedDispatch> {
  const { memory, graph } = context;
  const { width, embedding } = graph.shape;
  if (!embedding) throw new Error(`${unit.id}: the model has no pooling`);
  return planDispatch(
    context,
    unit.id,
    singleOption(pool, { WG: 64 }),
    { columns: width, mode: poolModes[embedding.pooling] },
    { x: memory.buffers[unit.from], y: memory.buffers.last },
    'samples',
  );
}
