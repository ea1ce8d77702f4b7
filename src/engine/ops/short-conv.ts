import { shortConv as convKernel } from '../../../kernels/short-conv.ts';
import { type PlanContext, spansOf, strideOf, vectorOf } from '../execution/plan-context.ts';
import { planDispatch, singleOption, type PlannedDispatch } from '../execution/plan-dispatch.ts';
import type { UnitBase } from '../graph/graph.ts';
import { stackKey } from '../graph/stack-key.ts';
import { stateBufferOf } from '../memory/memory.ts';
import { f32Bytes, type Op, unitCost } from './op.ts';

/**
 * A causal convolution of each channel with its last `kernel` inputs; inputs before the step come from the state
 * [(kernel - 1) rows, channels]. `gated`: `mixed` holds B, C and x of `channels` each, and context = C * conv(B *
 * x). `silu`: the first `channels` of `mixed` become silu(conv(mixed)), in place.
 */
export interface ShortConvUnit extends UnitBase {
  readonly op: 'short_conv';
  readonly layer: number;
  /** [channels, kernel];
  the last column belongs to the newest input. */
  readonly weight: string;
  readonly bias?: string;
  readonly mode: 'gated' | 'silu';
  readonly channels: number;
  readonly kernel: number;
  readonly cache: number;
}

export const shortConv: Op<ShortConvUnit> = {
  plan: planConv,
  vectors: (unit) => [vectorsOfConv(unit)],
  cost(unit, { tokens }) {
    const values = tokens * unit.channels;
    const inputs = unit.mode === 'gated' ? 3 : 1;
    return unitCost(values * (2 * unit.kernel + inputs), values * (inputs + 1), {
      weightBytes: unit.channels * unit.kernel * f32Bytes,
      cacheBytes: 2 * unit.channels * (unit.kernel - 1) * f32Bytes,
    });
  },
};

const vectorsOfConv = ({ weight, bias }: ShortConvUnit) => [weight, ...[bias ?? []].flat()];

function planConv(context: PlanContext, unit: ShortConvUnit): Promise<PlannedDispatch> {
  const { memory } = context;
  const { layer, channels, kernel, mode } = unit;
  return planDispatch(
    context,
    unit.id,
    singleOption(convKernel, { KERNEL: kernel, GATED: mode === 'gated', WG: 32 }),
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
