/** Plans layers that keep a recurrent state instead of keys and values. */
import { chooseDeltaNet, deltaNet } from '../../../kernels/delta-net.ts';
import { chooseGatedNorm, gatedNorm } from '../../../kernels/gated-norm.ts';
import { shortConv } from '../../../kernels/short-conv.ts';
import { sigmoidGate } from '../../../kernels/sigmoid-gate.ts';
import type { PlanUnit } from '../graph/bindings.ts';
import { layerShape, type StateUnit } from '../graph/graph.ts';
import { stateBufferOf } from '../memory/memory.ts';
import { type BoundBuffer, type PlanContext, strideOf, vectorOf } from './plan-context.ts';
import { singleOption, planDispatch, type PlannedDispatch } from './plan-dispatch.ts';
import { stackKey } from '../loading/weights.ts';

type UnitOf<Op extends StateUnit['op']> = Extract<StateUnit, { readonly op: Op }>;

const vectorsOfConv = ({ weight, bias }: UnitOf<'short_conv'>) => [weight, ...[bias ?? []].flat()];

/** The vectors that a unit's plan binds. */
export function stateVectors(unit: PlanUnit): (readonly string[])[] {
  if (unit.op === 'short_conv') return [vectorsOfConv(unit)];
  if (unit.op === 'delta_net') return [[unit.dt, unit.a]];
  return unit.op === 'gated_norm' ? [[unit.weight]] : [];
}

const spansOf = ({ memory }: PlanContext): BoundBuffer => ({
  buffer: memory.step,
  offset: memory.layout.spans,
});

export function planConv(context: PlanContext, unit: UnitOf<'short_conv'>): Promise<PlannedDispatch> {
  const { memory } = context;
  const { layer, channels, kernel, mode } = unit;
  return planDispatch(
    context,
    unit.id,
    singleOption(shortConv, { KERNEL: kernel, GATED: mode === 'gated', WG: 32 }),
    {
      channels,
      stride: strideOf(context, 'mixed', layer),
      out_stride: strideOf(context, 'context', layer),
      biased: unit.bias === undefined ? 0 : 1,
    },
    {
      vectors: vectorOf(context, stackKey(vectorsOfConv(unit))),
      spans: spansOf(context),
      state: stateBufferOf(memory, unit.cache),
      mixed: memory.buffers.mixed,
      y: memory.buffers.context,
    },
  );
}

export function planDeltaNet(context: PlanContext, unit: UnitOf<'delta_net'>): Promise<PlannedDispatch> {
  const { memory, gpu } = context;
  const { layer, keyHeads, valueHeads, keyDim, valueDim } = unit;
  return planDispatch(
    context,
    unit.id,
    singleOption(deltaNet, chooseDeltaNet(gpu.caps, keyDim)),
    {
      key_heads: keyHeads,
      value_heads: valueHeads,
      value_dim: valueDim,
      stride: strideOf(context, 'mixed', layer),
      out_stride: strideOf(context, 'context', layer),
    },
    {
      vectors: vectorOf(context, stackKey([unit.dt, unit.a])),
      spans: spansOf(context),
      mixed: memory.buffers.mixed,
      state: stateBufferOf(memory, unit.cache),
      y: memory.buffers.context,
    },
  );
}

export function planGatedNorm(context: PlanContext, unit: UnitOf<'gated_norm'>): Promise<PlannedDispatch> {
  const { memory, gpu, graph } = context;
  const { layer, heads, headDim } = unit;
  return planDispatch(
    context,
    unit.id,
    singleOption(gatedNorm, chooseGatedNorm(gpu.caps)),
    {
      columns: headDim,
      stride: strideOf(context, 'context', layer),
      gate_stride: strideOf(context, 'mixed', layer),
      gate_offset: unit.gateOffset,
      heads,
      eps: graph.shape.eps,
    },
    { weight: vectorOf(context, unit.weight), gate: memory.buffers.mixed, y: memory.buffers.context },
  );
}

export function planSigmoidGate(
  context: PlanContext,
  unit: UnitOf<'sigmoid_gate'>,
): Promise<PlannedDispatch> {
  const { memory, graph } = context;
  const { heads, headDim } = layerShape(graph.shape, unit.layer);
  return planDispatch(
    context,
    unit.id,
    singleOption(sigmoidGate, { WG: 64 }),
    {
      columns: heads * headDim,
      stride: strideOf(context, 'context', unit.layer),
      gate_stride: strideOf(context, 'mixed', unit.layer),
    },
    { gate: memory.buffers.mixed, y: memory.buffers.context },
  );
}
