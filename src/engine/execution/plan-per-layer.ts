/** Plans per-layer inputs and other operations of Gemma 4. */
import { blockColumns } from '../../../kernels/formats.ts';
import {
  choosePerLayerJoin,
  perLayerGate,
  perLayerJoin,
  scale,
  softcap,
} from '../../../kernels/per-layer.ts';
import type { PlanUnit } from '../graph/bindings.ts';
import type { PerLayerUnit } from '../graph/graph.ts';
import { type PlanContext, strideOf, vectorOf } from './plan-context.ts';
import { singleOption, planDispatch, type PlannedDispatch } from './plan-dispatch.ts';

type UnitOf<Op extends PerLayerUnit['op']> = Extract<PerLayerUnit, { readonly op: Op }>;

/** The vectors that a unit's plan binds. */
export const perLayerVectors = (unit: PlanUnit): (readonly string[])[] =>
  unit.op === 'per_layer_join' ? [[unit.weight]] : [];

export async function planPerLayerJoin(
  context: PlanContext,
  unit: UnitOf<'per_layer_join'>,
): Promise<PlannedDispatch> {
  const { memory, graph, gpu, weights } = context;
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
    singleOption(perLayerJoin, choosePerLayerJoin(gpu.caps, format)),
    params,
    buffers,
  );
}

export function planPerLayerGate(
  context: PlanContext,
  unit: UnitOf<'per_layer_gate'>,
): Promise<PlannedDispatch> {
  const { memory, graph } = context;
  const { layerInput = 0 } = graph.shape;
  return planDispatch(
    context,
    unit.id,
    singleOption(perLayerGate, { WG: 64 }),
    {
      columns: layerInput,
      in_stride: strideOf(context, 'per_layer'),
      in_offset: unit.layer * layerInput,
    },
    { gate: memory.buffers.layer_input, inputs: memory.buffers.per_layer },
  );
}

export function planScale(context: PlanContext, unit: UnitOf<'scale'>): Promise<PlannedDispatch> {
  const { memory, graph } = context;
  const params = { columns: graph.shape.width, scale: unit.scale };
  return planDispatch(context, unit.id, singleOption(scale, { WG: 64 }), params, {
    y: memory.buffers.hidden,
  });
}

export function planSoftcap(context: PlanContext, unit: UnitOf<'softcap'>): Promise<PlannedDispatch> {
  const { memory, graph } = context;
  const params = { columns: graph.shape.vocabulary, cap: unit.cap };
  const buffers = { y: memory.buffers.logits };
  return planDispatch(context, unit.id, singleOption(softcap, { WG: 64 }), params, buffers, 'samples');
}
